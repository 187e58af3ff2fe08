//! When nothing is owed any more, and when something is again.

use super::{Loan, events::LoanUpdated, store};
use crate::{LendingError, model::LoanStatus};
use jiff::civil::Date;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger::{self as ledger, Account};
use serde_json::json;

/// Makes `loan`, which is locked, paid off if nothing is owed on `day`. For who posted something that pays.
///
/// Money in escrow or in suspense does not stand in the way: it is the borrower's and goes back.
pub async fn settle_if_paid(tx: &mut Tx, loan: &mut Loan, day: Date) -> Result<bool, LendingError> {
    let can_be = loan.status.accrues_interest() && loan.accrued_to.is_some_and(|accrued_to| accrued_to >= day);
    if !can_be || is_owed(tx, loan).await? {
        return Ok(false);
    }
    change_status(tx, loan, LoanStatus::PaidOff, "nothing is owed any more").await?;
    Ok(true)
}

/// Makes a paid loan active again if something is owed after all. For who took a payment back.
pub async fn reopen_if_owed(tx: &mut Tx, loan: &mut Loan) -> Result<bool, LendingError> {
    if loan.status != LoanStatus::PaidOff || !is_owed(tx, loan).await? {
        return Ok(false);
    }
    change_status(tx, loan, LoanStatus::Active, "a payment was taken back").await?;
    Ok(true)
}

async fn is_owed(tx: &Tx, loan: &Loan) -> Result<bool, LendingError> {
    let balances = ledger::balances(tx, loan.loan_id, loan.currency).await?;
    let owed = [Account::LoanPrincipal, Account::InterestReceivable, Account::FeesReceivable, Account::EscrowLiability];
    Ok(owed.into_iter().any(|account| balances.get(account).is_positive()))
}

/// Moves the loan on by the status machine; writes, audits and publishes it.
pub(super) async fn change_status(
    tx: &mut Tx,
    loan: &mut Loan,
    to: LoanStatus,
    reason: &str,
) -> Result<(), LendingError> {
    let from = loan.status;
    loan.status = from.become_status(to)?;
    store::save_loan(tx, loan).await?;
    let entry = Entry::new("loan_status_changed")
        .object("loan", loan.loan_id)
        .loan(loan.loan_id)
        .old(json!({"status": from}))
        .new_value(json!({"status": to}))
        .payload(json!({"reason": reason}));
    audit::record(tx, entry)?;
    outbox::publish(tx, &LoanUpdated::new(loan, "status_changed")).await?;
    Ok(())
}
