//! The loan's money is paid out.

use crate::{
    LendingError,
    loans::{Loan, postings, store},
    model::{Calendar, LoanStatus, amortise},
};
use jiff::civil::Date;
use onceward::Tx;
use onceward_ledger as ledger;

/// From `funded_on` interest runs. The schedule is made anew if that, or the first due date, is not as agreed.
pub(super) async fn activate(
    tx: &Tx,
    loan: &mut Loan,
    funded_on: Date,
    first_due: Option<Date>,
) -> Result<(), LendingError> {
    if loan.status != LoanStatus::Created {
        return Err(LendingError::WrongStatus { action: "activate", needs: "created", status: loan.status });
    }
    let calendar = match first_due {
        Some(first_due) => Calendar::new(funded_on, first_due)?,
        None => Calendar::with_due_day(funded_on, loan.calendar.first_due(), loan.calendar.due_day())?,
    };
    if calendar != loan.calendar {
        let schedule = amortise(loan.principal, &loan.policy, &calendar)?;
        store::replace_schedule(tx, loan.loan_id, &schedule).await?;
    }
    loan.status = loan.status.become_status(LoanStatus::Active)?;
    loan.calendar = calendar;
    (loan.funded_on, loan.accrued_to, loan.serviced_to) = (Some(funded_on), Some(funded_on), Some(funded_on));
    ledger::post(tx, &postings::funding(loan, funded_on)).await?;
    Ok(())
}
