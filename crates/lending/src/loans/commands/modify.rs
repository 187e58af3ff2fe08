//! New terms: the principal that is owed is repaid by a new schedule.

use crate::{
    LendingError,
    loans::{Loan, accrue, store},
    model::{Calendar, LoanStatus, amortise},
};
use jiff::civil::Date;
use onceward::Tx;
use onceward_ledger::{self as ledger, Account};
use onceward_money::{Minor, Rate};

/// Interest runs by the old terms up to `day`, and stays owed. What had come in paid the old schedule.
pub(super) async fn modify(
    tx: &mut Tx,
    loan: &mut Loan,
    day: Date,
    annual_rate: Option<Rate>,
    term_months: Option<u32>,
    first_due: Option<Date>,
) -> Result<(), LendingError> {
    if loan.status != LoanStatus::InModification {
        return Err(LendingError::WrongStatus { action: "modify", needs: "in_modification", status: loan.status });
    }
    accrue(tx, loan, day).await?;
    let balances = ledger::balances(tx, loan.loan_id, loan.currency).await?;
    loan.policy.annual_rate = annual_rate.unwrap_or(loan.policy.annual_rate);
    loan.policy.term_months = term_months.unwrap_or(loan.policy.term_months);
    loan.calendar = match first_due {
        Some(first_due) => Calendar::new(day, first_due)?,
        None => Calendar::monthly(day)?,
    };
    let schedule = amortise(balances.get(Account::LoanPrincipal), &loan.policy, &loan.calendar)?;
    store::replace_schedule(tx, loan.loan_id, &schedule).await?;
    let received = store::received(tx, &[loan.loan_id]).await?;
    loan.received_before = Minor::sum(received.iter().map(|receipt| receipt.for_instalments))?;
    loan.escrow_before = Minor::sum(received.iter().map(|receipt| receipt.for_escrow))?;
    loan.schedule_no += 1;
    loan.status = loan.status.become_status(LoanStatus::Active)?;
    Ok(())
}
