//! Payments: accepted once, validated, and posted to the ledger once.
//!
//! ```text
//! gateway ──► intake ──received.v1──► validator ──validated.v1──► poster ──► ledger
//!  (HTTP, CSV, webhook, queue)            └─payment.failed.v1       └─payment.posted.v1
//!                                           unapplied cash, until it is revalidated, moved or refunded
//! ```
//!
//! Reading order: `routes/intake` receives a gateway's payload, which `provider` reads; `commands` receive payments, check
//! them against `rules`, divide them and post them, one command per file; `consumers` declare the message between two
//! commands, its queue and its handler, one queue per file; [`events`] are published for everyone. `commands/replay`
//! handles events that take effect before existing postings: a payment that arrives late, or is returned.
//!
//! Invariant: one transaction of one provider is one payment, and one payment is in force in the ledger at most once.

mod commands;
pub(crate) mod consumers;
pub mod events;
pub(crate) mod metrics;
mod problems;
#[cfg(test)]
mod properties;
mod provider;
mod routes;
mod rules;
mod store;

pub(crate) use commands::{
    apply_suspense::{apply_suspense, has_unprocessed_due_date},
    replay::replay_status_change,
};
pub(crate) use consumers::consumers;
pub(crate) use routes::{OPERATE, routes};
pub(crate) use store::LINKED_STORIES;

use events::{
    AllocateSuspense, PaymentFailed, PaymentMoved, PaymentPosted, PaymentReceived, PaymentRefunded, PaymentReposted,
    PaymentReturned, PaymentRevalidated, PaymentValidated, PostPayment, ProcessPayment, SuspenseAllocated,
    SuspenseRefunded,
};
use onceward::{RequiredTable, Service};
use onceward_money::Currency;

/// Declares the events that payments publish.
pub(crate) fn published(service: Service) -> Service {
    service
        .publishes::<PaymentReceived>()
        .publishes::<PaymentValidated>()
        .publishes::<PaymentPosted>()
        .publishes::<PaymentFailed>()
        .publishes::<PaymentReturned>()
        .publishes::<PaymentReposted>()
        .publishes::<PaymentRevalidated>()
        .publishes::<PaymentMoved>()
        .publishes::<PaymentRefunded>()
        .publishes::<SuspenseAllocated>()
        .publishes::<SuspenseRefunded>()
        .publishes::<ProcessPayment>()
        .publishes::<PostPayment>()
        .publishes::<AllocateSuspense>()
}

/// The currency of all payments: the contracts of the pipeline allow no other.
pub(crate) const CURRENCY: Currency = Currency::USD;

/// Columns that must exist before payments are accepted.
pub(crate) const REQUIRED: &[RequiredTable] = &[
    RequiredTable {
        table: "lending.payment_intake",
        columns: &[
            "tenant_id",
            "payment_id",
            "idempotency_key",
            "gateway_txn_id",
            "allocation_hints",
            "correlation_id",
        ],
    },
    RequiredTable { table: "lending.payment_validation", columns: &["tenant_id", "payment_id", "is_valid", "reason"] },
    RequiredTable { table: "lending.payment_posting", columns: &["tenant_id", "payment_id", "event_id", "held"] },
    RequiredTable { table: "lending.payment_repost", columns: &["tenant_id", "payment_id", "version", "replay"] },
    RequiredTable { table: "lending.payment_return", columns: &["tenant_id", "payment_id", "reversal_id"] },
    RequiredTable { table: "lending.payment_conflict", columns: &["tenant_id", "conflict_id", "differs", "times"] },
    RequiredTable { table: "lending.payment_event", columns: &["tenant_id", "event_id", "event_type"] },
    RequiredTable {
        table: "lending.unapplied_payment",
        columns: &["tenant_id", "payment_id", "event_id", "detail", "release_id", "status", "to_payment_id"],
    },
    RequiredTable { table: "lending.loan_replay", columns: &["tenant_id", "loan_id", "number"] },
    RequiredTable {
        table: "lending.suspense_allocation",
        columns: &["tenant_id", "allocation_id", "version", "instalment"],
    },
];

/// The JSON Schemas of the messages and requests.
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
    include_str!("../../schemas/payment.suspense_refunded.v1.json"),
    include_str!("../../schemas/payment.returned.v1.json"),
    include_str!("../../schemas/payment.reposted.v1.json"),
    include_str!("../../schemas/payment.revalidated.v1.json"),
    include_str!("../../schemas/payment.moved.v1.json"),
    include_str!("../../schemas/payment.refunded.v1.json"),
    include_str!("../../schemas/payment.revalidate.v1.json"),
    include_str!("../../schemas/payment.move.v1.json"),
    include_str!("../../schemas/payment.refund.v1.json"),
    include_str!("../../schemas/payment.make.v1.json"),
    include_str!("../../schemas/payment.return.v1.json"),
    include_str!("../../schemas/payment.conflict.resolve.v1.json"),
    include_str!("../../schemas/payment.provider.v1.json"),
    include_str!("../../schemas/payment.suspense.v1.json"),
    include_str!("../../schemas/payment.accepted.v1.json"),
    include_str!("../../schemas/payment.allocation.accepted.v1.json"),
    include_str!("../../schemas/payment.taken.v1.json"),
    include_str!("../../schemas/payment.intake.v1.json"),
    include_str!("../../schemas/payment.webhook.v1.json"),
    include_str!("../../schemas/payment.unapplied.v1.json"),
    include_str!("../../schemas/payment.conflicts.v1.json"),
    include_str!("../../schemas/payment.conflict.v1.json"),
    include_str!("../../schemas/payment.provider.set.v1.json"),
    include_str!("../../schemas/payment.v1.json"),
];
