//! Escrow: the borrower's money for taxes and insurance, paid out to those who are owed them.
//!
//! A disbursement is asked for over HTTP (or by the command itself), and settled by the command `escrow.disburse.v1`: the
//! loan is locked, its product's policy says yes or no by what escrow holds, and a yes is posted to the ledger. A no is an
//! outcome like a yes: it is kept, told and audited, and not tried again.
//!
//! Invariant: a disbursement is settled once. Its row, its posting (`escrow:<disbursement>`), its event and its audit entry
//! are there together or not at all.

mod commands;
mod consumers;
mod disbursement;
pub mod events;
mod routes;
mod store;

pub use disbursement::{Disbursement, Payee, Purpose, Request, Status};

pub(crate) use routes::routes;

use onceward::prelude::*;

/// Columns without which nothing must be paid out.
pub(crate) const REQUIRED: &[RequiredTable] = &[RequiredTable {
    table: "lending.escrow_disbursement",
    columns: &["tenant_id", "disbursement_id", "loan_id", "amount_minor", "status", "reason", "event_id"],
}];

/// The contracts.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/escrow.request.v1.json"),
    include_str!("../../schemas/escrow.accepted.v1.json"),
    include_str!("../../schemas/escrow.disbursement.v1.json"),
    include_str!("../../schemas/escrow.account.v1.json"),
    include_str!("../../schemas/escrow.disburse.v1.json"),
    include_str!("../../schemas/escrow.disbursed.v1.json"),
    include_str!("../../schemas/escrow.refused.v1.json"),
];

pub(crate) fn consumers(service: Service) -> Service {
    // One at a time: a transaction that held several loans could wait for one that waits for it.
    let disburse = Consumer::transactional("disburse-escrow", "escrow.disburse.v1").prefetch(1);
    service.consumer(disburse.on(consumers::OnDisburse))
}
