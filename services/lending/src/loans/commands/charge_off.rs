//! Charges a loan off as a loss, or reverses the charge-off.

use crate::{
    LendingError,
    loans::{Loan, accrue, postings},
    model::LoanStatus,
};
use jiff::civil::Date;
use onceward::{Scope, Tx};
use onceward_ledger as ledger;
use uuid::Uuid;

/// Books the debt, with interest up to `day`, as an expense; interest no longer accrues.
pub(super) async fn charge_off(tx: &mut Tx, scope: &Scope, loan: &mut Loan, day: Date) -> Result<(), LendingError> {
    let status = loan.status.become_status(LoanStatus::ChargedOff)?;
    accrue(tx, scope, loan, day).await?;
    let balances = ledger::balances(tx, loan.loan_id, loan.currency).await?;
    if let Some(event) = postings::charge_off(loan, &balances, day)? {
        loan.charge_off_event_id = Some(ledger::post(tx, &event).await?.event_id);
    }
    loan.set_status(status, day, &scope.actor);
    Ok(())
}

/// Restores the charged-off debt; interest accrues again from `day` on.
pub(super) async fn reverse(tx: &Tx, loan: &mut Loan, day: Date, reason: Option<&str>) -> Result<(), LendingError> {
    if loan.status != LoanStatus::ChargedOff {
        let (action, needs) = ("reverse_charge_off", "charged_off");
        return Err(LendingError::WrongStatus { action, needs, status: loan.status });
    }
    if let Some(event_id) = loan.charge_off_event_id.take() {
        let correlation_id = format!("charge_off_reversed:{event_id}");
        ledger::reverse(tx, event_id, Uuid::now_v7(), day, &correlation_id, reason).await?;
    }
    loan.set_status(loan.status.become_status(LoanStatus::Active)?, day, &tx.scope().actor);
    loan.serviced_to = Some(day);
    Ok(())
}
