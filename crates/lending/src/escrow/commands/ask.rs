//! A disbursement is asked for. Whether it may be paid is decided when its turn among the loan's postings comes.

use crate::{
    LendingError,
    escrow::{events::EscrowDisburse, store},
    loans::Loan,
};
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::json;

pub(in crate::escrow) async fn ask(tx: &mut Tx, loan: &Loan, command: &EscrowDisburse) -> Result<(), LendingError> {
    store::insert(tx, loan, command).await?;
    let entry = Entry::new("escrow_requested")
        .object("escrow_disbursement", command.disbursement_id)
        .loan(loan.loan_id)
        .new_value(json!(command.disbursement));
    audit::record(tx, entry)?;
    outbox::publish(tx, command).await?;
    Ok(())
}
