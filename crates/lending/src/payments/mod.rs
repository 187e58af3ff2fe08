//! Payments: taken in once, found good or not, and posted to the ledger once.
//!
//! ```text
//! gateway ──► intake ──received.v1──► validator ──validated.v1──► poster ──► ledger
//!  (HTTP, CSV, webhook, queue)            └─payment.failed.v1       └─payment.posted.v1
//! ```
//!
//! Reading order: [`events`] are the messages; `provider` turns what gateways say into claims; `commands` take them in,
//! check them by `rules`, divide them and post them, one verb a file. `commands/replay` is what happens when something takes
//! effect before what is posted already: a payment that comes late, or goes back.
//!
//! Invariant: one transaction of one provider is one payment, and one payment is in force in the ledger at most once.

mod commands;
mod consumers;
pub mod events;
mod idempotency;
mod metrics;
mod posting;
mod problems;
mod provider;
mod routes;
mod rules;
mod store;
mod waves;

pub(crate) use consumers::consumers;
pub(crate) use routes::routes;

use onceward::RequiredTable;

/// Columns without which payments must not be taken.
pub(crate) const REQUIRED: &[RequiredTable] = &[
    RequiredTable {
        table: "lending.payment_intake",
        columns: &["tenant_id", "payment_id", "idempotency_key", "gateway_txn_id", "allocation_hints"],
    },
    RequiredTable { table: "lending.payment_validation", columns: &["tenant_id", "payment_id", "is_valid", "reason"] },
    RequiredTable { table: "lending.payment_posting", columns: &["tenant_id", "payment_id", "event_id", "held"] },
    RequiredTable { table: "lending.payment_repost", columns: &["tenant_id", "payment_id", "version", "replay"] },
    RequiredTable { table: "lending.payment_return", columns: &["tenant_id", "payment_id", "reversal_id"] },
    RequiredTable { table: "lending.payment_conflict", columns: &["tenant_id", "conflict_id", "differs", "times"] },
    RequiredTable { table: "lending.payment_event", columns: &["tenant_id", "event_id", "event_type"] },
    RequiredTable { table: "lending.loan_replay", columns: &["tenant_id", "loan_id", "number"] },
    RequiredTable { table: "lending.suspense_allocation", columns: &["tenant_id", "allocation_id", "version"] },
];

/// The contracts.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/payment.received.v1.json"),
    include_str!("../../schemas/payment.validated.v1.json"),
    include_str!("../../schemas/payment.posted.v1.json"),
    include_str!("../../schemas/payment.failed.v1.json"),
    include_str!("../../schemas/payment.raw.v1.json"),
    include_str!("../../schemas/payment.process.v1.json"),
    include_str!("../../schemas/payment.post.v1.json"),
    include_str!("../../schemas/payment.allocate.v1.json"),
    include_str!("../../schemas/payment.allocated.v1.json"),
    include_str!("../../schemas/payment.returned.v1.json"),
    include_str!("../../schemas/payment.reposted.v1.json"),
    include_str!("../../schemas/payment.make.v1.json"),
    include_str!("../../schemas/payment.return.v1.json"),
    include_str!("../../schemas/payment.conflict.resolve.v1.json"),
    include_str!("../../schemas/payment.provider.v1.json"),
    include_str!("../../schemas/payment.suspense.v1.json"),
];
