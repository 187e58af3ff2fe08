//! Marks a loan as paid off when nothing is owed, and reopens it when something is owed again.

use super::{Loan, events::LoanUpdated, position::owes, store};
use crate::{LendingError, model::LoanStatus};
use jiff::civil::Date;
use onceward::{Scope, Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger as ledger;
use serde_json::json;

/// Marks `loan`, which must be locked, as paid off if nothing is owed on `day`. Call it after posting something that
/// pays.
///
/// Money in escrow or in suspense does not prevent this: it is the borrower's and is returned.
pub async fn settle_if_paid(tx: &mut Tx, scope: &Scope, loan: &mut Loan, day: Date) -> Result<bool, LendingError> {
    let can_be = loan.status.accrues_interest() && loan.accrued_to.is_some_and(|accrued_to| accrued_to >= day);
    if !can_be || is_owed(tx, loan).await? {
        return Ok(false);
    }
    change_status(tx, scope, loan, LoanStatus::PaidOff, day, "nothing is owed any more").await?;
    Ok(true)
}

/// Restores the previous status of a paid-off loan if something is owed after all, from the day on which it was paid
/// off. Call it after reversing a payment.
pub async fn reopen_if_owed(tx: &mut Tx, scope: &Scope, loan: &mut Loan) -> Result<bool, LendingError> {
    if loan.status != LoanStatus::PaidOff || !is_owed(tx, loan).await? {
        return Ok(false);
    }
    let changes = store::status_changes(tx, loan.loan_id).await?;
    let payoff = changes.iter().rev().find(|change| change.to == LoanStatus::PaidOff);
    let before = payoff.and_then(|change| change.from).unwrap_or(LoanStatus::Active);
    let day = loan.status_since;
    change_status(tx, scope, loan, before, day, "a payment was reversed").await?;
    Ok(true)
}

async fn is_owed(tx: &Tx, loan: &Loan) -> Result<bool, LendingError> {
    Ok(owes(&ledger::balances(tx, loan.loan_id, loan.currency).await?))
}

/// Changes the loan's status by the status machine, from `day` on; saves, audits and publishes the change.
pub(super) async fn change_status(
    tx: &mut Tx,
    scope: &Scope,
    loan: &mut Loan,
    to: LoanStatus,
    day: Date,
    reason: &str,
) -> Result<(), LendingError> {
    let from = loan.status;
    loan.set_status(from.become_status(to)?, day, &scope.actor);
    store::save_loan(tx, loan).await?;
    let entry = Entry::new("loan_status_changed")
        .object("loan", loan.loan_id)
        .loan(loan.loan_id)
        .old(json!({"status": from}))
        .new_value(json!({"status": to}))
        .payload(json!({"reason": reason, "effective_date": loan.status_since}));
    audit::record_as(tx, scope, entry)?;
    outbox::publish_as(tx, scope, &LoanUpdated::new(loan, "status_changed")).await?;
    Ok(())
}
