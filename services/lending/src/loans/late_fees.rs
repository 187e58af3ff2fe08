//! Late fees: one per instalment that is unpaid after its grace period, never one on a fee.

use super::{Loan, position, postings, store};
use crate::{
    LendingError,
    model::{LateCharge, LateFee, LoanBooks, RepaymentSchedule},
};
use jiff::{Span, civil::Date};
use onceward::{Scope, Tx};
use onceward_audit::{self as audit, Entry};
use onceward_ledger as ledger;
use serde_json::json;
use uuid::Uuid;

/// Charges the late fees of `loan`, which must be locked, that are due by `day` and not charged yet, and reverses
/// charged ones that are no longer due. Each depends on the loan's status on its own day. Returns how many changed.
/// Call it after a change of the payments, or of their days.
pub async fn review_late_fees(tx: &mut Tx, scope: &Scope, loan: &Loan, day: Date) -> Result<usize, LendingError> {
    if loan.policy.late_fee.charge == LateCharge::None {
        return Ok(0);
    }
    let schedule = store::find_schedule(tx, loan.loan_id, loan.schedule_no).await?;
    let (receipts, _) = position::receipts(tx, loan).await?;
    let statuses = position::statuses(tx, loan).await?;
    let known = store::late_fees(tx, loan).await?;
    let charged: Vec<u32> = known.iter().filter(|fee| fee.event_id.is_some()).map(|fee| fee.number).collect();
    let changes = loan.policy.late_fee.changes(day, &schedule, &receipts, &statuses, &charged)?;
    for fee in &changes.charge {
        let times = known.iter().find(|known| known.number == fee.instalment).map_or(0, |known| known.times);
        charge(tx, scope, loan, fee, times).await?;
    }
    for number in &changes.withdraw {
        let fee = known.iter().find(|known| known.number == *number).and_then(|known| known.event_id);
        if let Some(event_id) = fee {
            withdraw(tx, scope, loan, *number, event_id, day).await?;
        }
    }
    Ok(changes.charge.len() + changes.withdraw.len())
}

/// Charges the late fees that are due by `day` and withdraws those that are not. Returns whether any changed.
pub(crate) async fn update_late_fees(
    tx: &mut Tx,
    scope: &Scope,
    loan: &Loan,
    schedule: &RepaymentSchedule,
    books: &LoanBooks,
    day: Date,
) -> Result<bool, LendingError> {
    if loan.policy.late_fee.charge == LateCharge::None {
        return Ok(false);
    }
    let statuses = position::statuses(tx, loan).await?;
    let known = store::late_fees(tx, loan).await?;
    let charged: Vec<u32> = known.iter().filter(|fee| fee.event_id.is_some()).map(|fee| fee.number).collect();
    let changes = loan.policy.late_fee.changes(day, schedule, &books.receipts, &statuses, &charged)?;
    if changes.charge.is_empty() && changes.withdraw.is_empty() {
        return Ok(false);
    }
    Ok(review_late_fees(tx, scope, loan, day).await? > 0)
}

/// Returns whether the grace period of an instalment ended after `since` and on or before `day`.
pub(super) fn grace_ended_between(loan: &Loan, since: Date, day: Date) -> bool {
    let over = |day: Date| {
        let due = day.saturating_sub(Span::new().days(i64::from(loan.policy.late_fee.grace_days) + 1));
        loan.calendar.period_number_at(due)
    };
    loan.policy.late_fee.charge != LateCharge::None && over(day) > over(since)
}

async fn charge(tx: &mut Tx, scope: &Scope, loan: &Loan, fee: &LateFee, times: i32) -> Result<(), LendingError> {
    let suffix = if times == 0 { String::new() } else { format!(":{}", times + 1) };
    let correlation_id = format!("late_fee:{}:{}.{}{suffix}", loan.loan_id, loan.schedule_no, fee.instalment);
    let event = postings::late_fee(loan, fee.instalment, fee.charged_on, fee.amount, correlation_id);
    ledger::post(tx, &event).await?;
    store::mark_late_fee(tx, loan, fee.instalment, Some(event.event_id)).await?;
    let payload = json!({"event_id": event.event_id, "fee": fee});
    let entry = Entry::new("late_fee_assessed").object("loan", loan.loan_id).loan(loan.loan_id).payload(payload);
    Ok(audit::record_as(tx, scope, entry)?)
}

async fn withdraw(
    tx: &mut Tx,
    scope: &Scope,
    loan: &Loan,
    number: u32,
    event_id: Uuid,
    day: Date,
) -> Result<(), LendingError> {
    let correlation_id = format!("late_fee_withdrawn:{event_id}");
    let note = "the fee is not due: the instalment was paid in time, or the status on that day charges no fees";
    ledger::reverse(tx, event_id, Uuid::now_v7(), day, &correlation_id, Some(note)).await?;
    store::mark_late_fee(tx, loan, number, None).await?;
    let payload = json!({"event_id": event_id, "instalment": number});
    let entry = Entry::new("late_fee_withdrawn").object("loan", loan.loan_id).loan(loan.loan_id).payload(payload);
    Ok(audit::record_as(tx, scope, entry)?)
}
