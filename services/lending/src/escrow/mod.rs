//! Escrow: the borrower's money for taxes and insurance, paid out to the payees.
//!
//! A disbursement is requested over HTTP (or by the command itself), and settled by the command `escrow.disburse.v1`:
//! the loan is locked, its product's policy decides based on the escrow balance, and an approved disbursement is
//! posted to the ledger. A refusal is an outcome like an approval: it is stored, published and audited, and not
//! retried.
//!
//! Invariant: a disbursement is settled once. Its row, its posting (`escrow:<disbursement>`), its event and its audit
//! entry exist together or not at all.

mod commands;
mod consumers;
mod disbursement;
pub mod events;
mod routes;
mod store;

pub use disbursement::{Disbursement, DisbursementRequest, DisbursementStatus, Payee, Purpose};

pub(crate) use consumers::consumers;
pub(crate) use routes::routes;

use events::{EscrowDisburse, EscrowDisbursed, EscrowRefused};
use onceward::{RequiredTable, Service};

/// Columns that must exist before anything is paid out.
pub(crate) const REQUIRED: &[RequiredTable] = &[RequiredTable {
    table: "lending.escrow_disbursement",
    columns: &["tenant_id", "disbursement_id", "loan_id", "amount_minor", "status", "reason", "event_id"],
}];

/// The JSON Schemas of the messages and requests.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/escrow.request.v1.json"),
    include_str!("../../schemas/escrow.accepted.v1.json"),
    include_str!("../../schemas/escrow.disbursement.v1.json"),
    include_str!("../../schemas/escrow.account.v1.json"),
    include_str!("../../schemas/escrow.disburse.v1.json"),
    include_str!("../../schemas/escrow.disbursed.v1.json"),
    include_str!("../../schemas/escrow.refused.v1.json"),
];

/// Declares the events that escrow publishes.
pub(crate) fn published(service: Service) -> Service {
    service.publishes::<EscrowDisburse>().publishes::<EscrowDisbursed>().publishes::<EscrowRefused>()
}
