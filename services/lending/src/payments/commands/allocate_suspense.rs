//! Applies suspense to what is due, when an operator requests it.

use super::apply_suspense::apply_suspense;
use crate::LendingError;
use crate::loans::store::ScheduleCache;
use crate::loans::{self, Loan, postings};
use crate::model::{Allocation, Dues, LoanBooks, RepaymentSchedule, allocate_held};
use crate::payments::{
    events::{AllocateSuspense, NewBalances, SuspenseAllocated},
    store::{self, NewAllocation},
};
use jiff::civil::Date;
use onceward::{Scope, Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger as ledger;
use serde_json::json;
use uuid::Uuid;

/// Pays what is due on the command's day, or on the day up to which interest is booked, if that is later. Each command
/// is applied once; it may find nothing to pay, or nothing to pay with.
pub(crate) async fn allocate_suspense(
    tx: &mut Tx,
    schedules: &ScheduleCache,
    command: &AllocateSuspense,
) -> Result<Vec<Allocation>, LendingError> {
    let AllocateSuspense { allocation_id, loan_id, effective_date } = *command;
    let scope = &tx.scope().clone();
    let mut loan = loans::store::lock_loan(tx, loan_id).await?.ok_or(LendingError::LoanMissing(loan_id))?;
    if !loan.status.accrues_interest() {
        let (action, needs) = ("applying suspense", "active, in_modification or bankruptcy");
        return Err(LendingError::WrongStatus { action, needs, status: loan.status });
    }
    let day = effective_date.max(loan.accrued_to.ok_or(LendingError::NotFunded)?);
    apply_suspense(tx, scope, schedules, &mut loan, day).await?;
    loans::accrue(tx, scope, &mut loan, day).await?;
    let schedule = schedules.schedule_of(tx, &loan).await?;
    let books = loans::books(tx, &loan, day).await?;
    loans::update_late_fees(tx, scope, &loan, &schedule, &books, day).await?;
    let books = loans::books(tx, &loan, day).await?;
    let applied = divide(&loan, &schedule, books, day)?;
    let allocation = NewAllocation {
        allocation_id,
        version: 1,
        loan_id,
        effective_date: day,
        instalment: None,
        event_id: None,
        applied: &applied,
    };
    if let Some(event_id) = record(tx, &loan, allocation).await? {
        publish(tx, scope, &loan, command.allocation_id, event_id, day, &applied).await?;
        loans::settle_if_paid(tx, scope, &mut loan, day).await?;
    }
    Ok(applied)
}

/// Divides suspense among what is due, or among everything owed if it covers that. It makes no prepayments, and the
/// unneeded rest stays in suspense.
pub(super) fn divide(
    loan: &Loan,
    schedule: &RepaymentSchedule,
    books: LoanBooks,
    day: Date,
) -> Result<Vec<Allocation>, LendingError> {
    let held = books.usable_suspense;
    let dues = Dues::on(day, &loan.policy, &loan.calendar, schedule, &books.without_suspense(day)?)?;
    Ok(allocate_held(held, &loan.policy, &dues.outstanding)?)
}

/// Posts the allocation, unless it is empty, and stores it. Returns the ledger event; does nothing if that version
/// exists.
pub(super) async fn record(
    tx: &Tx,
    loan: &Loan,
    mut allocation: NewAllocation<'_>,
) -> Result<Option<Uuid>, LendingError> {
    let event = if allocation.applied.is_empty() {
        None
    } else {
        let suffix = if allocation.version == 1 { String::new() } else { format!(":replay:{}", allocation.version) };
        let correlation_id = format!("allocation:{}{suffix}", allocation.allocation_id);
        let lines = postings::allocation_lines(allocation.applied)?;
        Some(postings::event(loan, postings::ALLOCATION, allocation.effective_date, correlation_id, lines))
    };
    if let Some(event) = &event {
        match ledger::post(tx, event).await {
            Err(ledger::LedgerError::AlreadyPosted { .. }) => return Ok(None),
            posted => posted?,
        };
    }
    allocation.event_id = event.as_ref().map(|event| event.event_id);
    store::insert_allocation(tx, loan, &allocation).await?;
    Ok(allocation.event_id)
}

/// Records the allocation in the audit trail and publishes it.
pub(super) async fn publish(
    tx: &mut Tx,
    scope: &Scope,
    loan: &Loan,
    allocation_id: Uuid,
    event_id: Uuid,
    effective_date: Date,
    applied: &[Allocation],
) -> Result<(), LendingError> {
    let loan_id = loan.loan_id;
    let payload = json!({"allocation_id": allocation_id, "event_id": event_id, "applied": applied});
    let entry = Entry::new("suspense_allocated").object("loan", loan_id).loan(loan_id);
    audit::record_as(tx, scope, entry.payload(payload))?;
    let balances = ledger::balances(tx, loan_id, loan.currency).await?;
    let allocated = SuspenseAllocated {
        allocation_id,
        loan_id,
        event_id,
        effective_date,
        applied: applied.to_vec(),
        new_balances: NewBalances::of(&balances)?,
    };
    outbox::publish_as(tx, scope, &allocated).await?;
    Ok(())
}
