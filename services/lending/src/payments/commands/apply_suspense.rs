//! Applies suspense to instalments on their due dates.
//!
//! ```text
//!   suspense_applied_to          due 7          due 8            day
//!   └── done up to here          apply          apply            └── done up to here
//! ```
//!
//! The daily run does this, and everything that books an event of a later day does it first, so it happens in the
//! order of days even when the daily run was late. Each due date is processed once, identified by the number of its
//! instalment; a replay creates another version. On a due date this happens before that day's payments.

use super::allocate_suspense::{self, divide, record};
use crate::LendingError;
use crate::loans::store::ScheduleCache;
use crate::loans::{self, Loan};
use crate::model::{PaymentRule, StatusHistory};
use crate::payments::store::{self, NewAllocation};
use jiff::civil::Date;
use onceward::{Scope, Tx};
use onceward_ledger::{self as ledger, Account};
use uuid::Uuid;

/// Returns whether an instalment fell due up to and including `day` that has not been processed.
pub(crate) fn has_unprocessed_due_date(loan: &Loan, day: Date) -> bool {
    let Some((funded_on, _)) = loan.funded() else {
        return false;
    };
    let done = loan.suspense_applied_to.unwrap_or(funded_on);
    loan.status.accrues_interest() && loan.calendar.period_number_at(day) > loan.calendar.period_number_at(done)
}

/// Applies the suspense of `loan`, which must be locked, on each unprocessed due date up to and including `day`.
///
/// Interest is booked up to each due date. If it is already booked beyond one, the later day counts.
pub(crate) async fn apply_suspense(
    tx: &mut Tx,
    scope: &Scope,
    schedules: &ScheduleCache,
    loan: &mut Loan,
    day: Date,
) -> Result<(), LendingError> {
    if !has_unprocessed_due_date(loan, day) {
        return Ok(());
    }
    let schedule = schedules.schedule_of(tx, loan).await?;
    let statuses = loans::statuses(tx, loan).await?;
    let done = loan.suspense_applied_to.unwrap_or(loan.calendar.funded_on());
    for (instalment, due_date) in due_dates(loan, done, day) {
        // Without suspense, later due dates need no processing either.
        if !loan.status.accrues_interest() || !has_suspense(tx, loan).await? {
            break;
        }
        let on = loan.accrued_to.map_or(due_date, |accrued_to| due_date.max(accrued_to));
        loans::accrue(tx, scope, loan, on).await?;
        let books = loans::books_as_of(tx, loan, on).await?;
        loans::update_late_fees(tx, scope, loan, &schedule, &books, on).await?;
        apply_to_instalment(tx, scope, schedules, loan, &statuses, instalment, on).await?;
        loans::settle_if_paid(tx, scope, loan, on).await?;
    }
    loans::store::set_suspense_applied_to(tx, &[loan.loan_id], day).await?;
    loan.suspense_applied_to = Some(day);
    Ok(())
}

/// Returns the instalments that fall due after `after` and up to and including `up_to`. The calendar continues after
/// the last instalment: everything owed is due on each of its days.
pub(super) fn due_dates(loan: &Loan, after: Date, up_to: Date) -> impl Iterator<Item = (u32, Date)> + use<> {
    let calendar = loan.calendar;
    (calendar.period_number_at(after)..calendar.period_number_at(up_to))
        .map(move |number| (number, calendar.due_date(number)))
}

async fn has_suspense(tx: &Tx, loan: &Loan) -> Result<bool, LendingError> {
    let balances = ledger::balances(tx, loan.loan_id, loan.currency).await?;
    Ok(balances.normal(Account::Suspense)?.is_positive())
}

/// Applies suspense to one instalment on `day`. Interest and late fees must be booked up to that day. Nothing is
/// applied while a court decides what may be paid.
pub(super) async fn apply_to_instalment(
    tx: &mut Tx,
    scope: &Scope,
    schedules: &ScheduleCache,
    loan: &Loan,
    statuses: &StatusHistory,
    instalment: u32,
    day: Date,
) -> Result<(), LendingError> {
    let known = store::find_due_allocation(tx, loan, instalment).await?;
    let applied = if statuses.on(day).payment_rule() == PaymentRule::Apply {
        let schedule = schedules.schedule_of(tx, loan).await?;
        divide(loan, &schedule, loans::books_as_of(tx, loan, day).await?, day)?
    } else {
        Vec::new()
    };
    if applied.is_empty() && known.is_none() {
        return Ok(());
    }
    let (allocation_id, version) =
        known.map_or_else(|| (Uuid::now_v7(), 1), |(allocation_id, version)| (allocation_id, version + 1));
    let allocation = NewAllocation {
        allocation_id,
        version,
        loan_id: loan.loan_id,
        effective_date: day,
        instalment: Some(instalment),
        event_id: None,
        applied: &applied,
    };
    let event_id = record(tx, loan, allocation).await?;
    if let Some(event_id) = event_id.filter(|_| version == 1) {
        allocate_suspense::publish(tx, scope, loan, allocation_id, event_id, day, &applied).await?;
    }
    Ok(())
}
