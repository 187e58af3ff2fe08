//! Changes a loan's status: activates it, closes it, or sets a status where nothing has to be booked.

use crate::{
    LendingError,
    loans::{Loan, postings, store},
    model::{
        Calendar,
        LoanStatus::{self, Active, Bankruptcy, ChargedOff, Closed, Created, InModification, PaidOff},
        amortise,
    },
};
use jiff::civil::Date;
use onceward::Tx;
use onceward_ledger::{self as ledger, Account};

/// Activates the loan: posts the funding, and interest accrues from `funded_on`. The schedule is recomputed if that day,
/// or the first due date, is not as agreed.
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
        store::write_schedule(tx, loan.loan_id, loan.schedule_no, &schedule).await?;
    }
    let status = loan.status.become_status(LoanStatus::Active)?;
    loan.calendar = calendar;
    (loan.funded_on, loan.accrued_to, loan.serviced_to) = (Some(funded_on), Some(funded_on), Some(funded_on));
    loan.suspense_applied_to = Some(funded_on);
    loan.set_status(status, funded_on, &tx.scope().actor);
    ledger::post(tx, &postings::funding(loan, funded_on)).await?;
    Ok(())
}

/// Sets the status from `day` on. Fails if `day` precedes the funding or the last change of status.
pub(super) fn change_status(tx: &Tx, loan: &mut Loan, to: LoanStatus, day: Date) -> Result<(), LendingError> {
    let from = loan.status;
    from.become_status(to)?;
    let action = match (from, to) {
        (Created, Active) => Some("the action activate"),
        (ChargedOff, Active) => Some("the action reverse_charge_off"),
        (PaidOff, Active | InModification | Bankruptcy) => Some("returning the payment that ended it"),
        (_, ChargedOff) => Some("the action charge_off"),
        (_, Closed) => Some("the action close"),
        (_, PaidOff) => Some("paying what is owed"),
        (_, Active | InModification | Bankruptcy | Created) => None,
    };
    if let Some(action) = action {
        return Err(LendingError::OtherAction { from, to, action });
    }
    let (funded_on, _) = loan.funded().ok_or(LendingError::NotFunded)?;
    if day < funded_on {
        return Err(LendingError::BeforeFunding { day, funded_on });
    }
    if day < loan.status_since {
        return Err(LendingError::BeforeLastStatus { day, status: from, since: loan.status_since });
    }
    loan.set_status(to, day, &tx.scope().actor);
    Ok(())
}

/// Closes the loan. Fails while suspense or escrow has a balance.
pub(super) async fn close(tx: &Tx, loan: &mut Loan, today: Date) -> Result<(), LendingError> {
    let status = loan.status.become_status(LoanStatus::Closed)?;
    let balances = ledger::balances(tx, loan.loan_id, loan.currency).await?;
    for account in [Account::Suspense, Account::EscrowLiability] {
        let amount = balances.normal(account)?;
        if !amount.is_zero() {
            return Err(LendingError::NotSettled { account: account.as_str(), amount });
        }
    }
    loan.set_status(status, today, &tx.scope().actor);
    Ok(())
}
