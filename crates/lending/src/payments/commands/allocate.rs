//! Money that waits in suspense pays what is due.

use super::place::{self, Schedules};
use crate::LendingError;
use crate::loans::{self, Loan, postings};
use crate::model::{Allocation, Books, Bucket, Hints, Prepayment, Schedule, allocate as divide_by};
use crate::payments::{
    events::{AllocateSuspense, SuspenseAllocated},
    posting::{self, ALLOCATION},
    store::{self, Taken},
};
use jiff::civil::Date;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger as ledger;
use serde_json::json;
use uuid::Uuid;

/// Pays what is due on the command's day, or on the day up to which interest is booked, if that is later. Once for each
/// command; it may find that there is nothing to pay, or nothing to pay it with.
pub(crate) async fn allocate(
    tx: &mut Tx,
    schedules: &Schedules,
    command: &AllocateSuspense,
) -> Result<Vec<Allocation>, LendingError> {
    let AllocateSuspense { allocation_id, loan_id, effective_date } = *command;
    let mut loan = loans::store::lock_loan(tx, loan_id).await?.ok_or(LendingError::LoanMissing(loan_id))?;
    if !loan.status.accrues_interest() {
        let (action, needs) = ("applying suspense", "active, in_modification or bankruptcy");
        return Err(LendingError::WrongStatus { action, needs, status: loan.status });
    }
    let day = effective_date.max(loan.accrued_to.ok_or(LendingError::NotFunded)?);
    loans::accrue(tx, &mut loan, day).await?;
    let schedule = schedules.of(tx, &loan).await?;
    let books = loans::books(tx, &loan, day).await?;
    place::late_fees_by(tx, &loan, &schedule, &books, day).await?;
    let books = loans::books(tx, &loan, day).await?;
    let applied = divide(&loan, &schedule, books, day)?;
    let taken = Taken { allocation_id, version: 1, loan_id, effective_date: day, event_id: None, applied: &applied };
    if let Some(event_id) = record(tx, &loan, taken).await? {
        tell(tx, &loan, command.allocation_id, event_id, day, &applied).await?;
        loans::settle_if_paid(tx, &mut loan, day).await?;
    }
    Ok(applied)
}

/// What is held, divided among what is due. Nothing is prepaid with it, and what is not needed stays where it is.
pub(super) fn divide(
    loan: &Loan,
    schedule: &Schedule,
    books: Books,
    day: Date,
) -> Result<Vec<Allocation>, LendingError> {
    let held = books.suspense;
    if !held.is_positive() {
        return Ok(Vec::new());
    }
    let outstanding = place::outstanding_without_suspense(loan, schedule, books, day)?;
    let policy = crate::model::ProductPolicy { prepayment: Prepayment::Hold, ..loan.policy.clone() };
    let mut applied = divide_by(held, &policy, &outstanding, Hints::default())?;
    applied.retain(|part| part.bucket != Bucket::Future);
    Ok(applied)
}

/// Posts it, if there is anything, and writes it down. Gives the event; nothing happens if that version is there.
pub(super) async fn record(tx: &Tx, loan: &Loan, mut taken: Taken<'_>) -> Result<Option<Uuid>, LendingError> {
    let event = if taken.applied.is_empty() {
        None
    } else {
        let again = if taken.version == 1 { String::new() } else { format!(":replay:{}", taken.version) };
        let correlation_id = format!("allocation:{}{again}", taken.allocation_id);
        let lines = posting::allocation_lines(taken.applied)?;
        Some(postings::event(loan, ALLOCATION, taken.effective_date, correlation_id, lines))
    };
    if let Some(event) = &event {
        match ledger::post(tx, event).await {
            Err(ledger::LedgerError::AlreadyPosted { .. }) => return Ok(None),
            posted => posted?,
        };
    }
    taken.event_id = event.as_ref().map(|event| event.event_id);
    store::insert_allocation(tx, &taken).await?;
    Ok(taken.event_id)
}

async fn tell(
    tx: &mut Tx,
    loan: &Loan,
    allocation_id: Uuid,
    event_id: Uuid,
    effective_date: Date,
    applied: &[Allocation],
) -> Result<(), LendingError> {
    let loan_id = loan.loan_id;
    let payload = json!({"allocation_id": allocation_id, "event_id": event_id, "applied": applied});
    audit::record(tx, Entry::new("suspense_allocated").object("loan", loan_id).loan(loan_id).payload(payload))?;
    let balances = ledger::balances(tx, loan_id, loan.currency).await?;
    let allocated = SuspenseAllocated {
        allocation_id,
        loan_id,
        event_id,
        effective_date,
        applied: applied.to_vec(),
        new_balances: posting::told(&balances)?,
    };
    outbox::publish(tx, &allocated).await?;
    Ok(())
}
