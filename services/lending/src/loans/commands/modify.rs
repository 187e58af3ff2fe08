//! Modifies a loan's terms: a new schedule repays the outstanding principal.

use crate::{
    LendingError,
    loans::{Loan, accrue, store},
    model::{Calendar, LoanStatus, amortise},
};
use jiff::civil::Date;
use onceward::{Scope, Tx};
use onceward_ledger::{self as ledger, Account};
use onceward_money::{Minor, Rate};

/// Interest accrues under the old terms up to `day`, and stays owed. Money received so far paid the old schedule,
/// whose rows are kept under its number.
pub(super) async fn modify(
    tx: &mut Tx,
    scope: &Scope,
    loan: &mut Loan,
    day: Date,
    annual_rate: Option<Rate>,
    term_months: Option<u32>,
    first_due: Option<Date>,
) -> Result<(), LendingError> {
    if loan.status != LoanStatus::InModification {
        return Err(LendingError::WrongStatus { action: "modify", needs: "in_modification", status: loan.status });
    }
    accrue(tx, scope, loan, day).await?;
    let balances = ledger::balances(tx, loan.loan_id, loan.currency).await?;
    loan.policy.annual_rate = annual_rate.unwrap_or(loan.policy.annual_rate);
    loan.policy.term_months = term_months.unwrap_or(loan.policy.term_months);
    loan.calendar = match first_due {
        Some(first_due) => Calendar::new(day, first_due)?,
        None => Calendar::monthly(day)?,
    };
    let schedule = amortise(balances.get(Account::LoanPrincipal), &loan.policy, &loan.calendar)?;
    loan.schedule_no += 1;
    store::write_schedule(tx, loan.loan_id, loan.schedule_no, &schedule).await?;
    let received = store::received(tx, &[loan.loan_id]).await?;
    let for_instalments = Minor::sum(received.iter().map(|receipt| receipt.for_instalments))?;
    // Suspense has paid nothing yet, so it is available to the new schedule.
    loan.received_before = for_instalments.checked_sub(balances.normal(Account::Suspense)?.max(Minor::ZERO))?;
    loan.escrow_before = Minor::sum(received.iter().map(|receipt| receipt.for_escrow))?;
    loan.suspense_applied_to = Some(day);
    loan.set_status(loan.status.become_status(LoanStatus::Active)?, day, &scope.actor);
    Ok(())
}
