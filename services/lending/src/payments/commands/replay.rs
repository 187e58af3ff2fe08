//! Replays postings when an event takes effect before existing ones.
//!
//! ```text
//!   day 1        day 5            day 7       day 9          a payment of day 3 arrives
//!   payment A    interest to 5    payment B   interest to 9
//!                └──────────── reversed, newest first, each on its own day ──┘
//!   payment A    new (3)   interest to 5   payment B again (7)   interest to 9
//! ```
//!
//! Nothing in the ledger is changed: postings that depend on the day are reversed, each on its own day, and posted
//! again in the order of days, with recomputed interest and late fees. So the balances as of any day are what they
//! would be had everything arrived in order. This includes a reversed charge-off: its amount is the debt on its day,
//! so it is posted again as well (see [`charge_offs`]).

mod affected_postings;
mod charge_offs;
mod step;

use self::{affected_postings::AffectedPostings, charge_offs::ChargedOffPeriod, step::ReplayContext};
use super::apply_suspense;
use crate::LendingError;
use crate::loans::store::ScheduleCache;
use crate::loans::{self, Loan, postings};
use crate::model::{self, Allocation, AllocationHints, LoanStatus, PaymentRule, StatusHistory};
use crate::payments::store;
use jiff::civil::Date;
use onceward::{Scope, Tx};
use onceward_audit::{self as audit, Entry};
use onceward_ledger as ledger;
use onceward_money::Minor;
use serde_json::json;
use std::collections::BTreeSet;
use uuid::Uuid;

/// The postings that depend on the status on their day.
const DEPENDENT_ON_STATUS: &[&str] =
    &[postings::PAYMENT, postings::PREPAYMENT, postings::ALLOCATION, postings::LATE_FEE];

/// The reason for a replay.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReplayReason {
    /// A payment arrived late. The replay posts it, as this event.
    Backdated { payment_id: Uuid, amount: Minor, hints: AllocationHints, event_id: Uuid },
    /// The payment was returned. It is reversed and not posted again.
    Returned { payment_id: Uuid },
    /// An operator requested that the payment, and what came after it, be posted again.
    Requested { payment_id: Uuid },
    /// The loan's status counts from a past day.
    StatusChanged,
}

impl ReplayReason {
    /// The name in the database.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Backdated { .. } => "backdated",
            Self::Returned { .. } => "returned",
            Self::Requested { .. } => "asked_for",
            Self::StatusChanged => "status_changed",
        }
    }

    const fn payment_id(self) -> Option<Uuid> {
        match self {
            Self::Backdated { payment_id, .. } | Self::Returned { payment_id } | Self::Requested { payment_id } => {
                Some(payment_id)
            }
            Self::StatusChanged => None,
        }
    }
}

/// The result of a replay.
#[derive(Debug, Default)]
pub(crate) struct ReplayResult {
    /// The event and the division of the backdated payment.
    pub posted: Option<(Uuid, Vec<Allocation>)>,
    /// The reversal of the returned payment.
    pub reversal: Option<Uuid>,
}

/// Replays `loan`, which must be locked, from `from` on, because of an event of that day.
pub(crate) async fn replay(
    tx: &mut Tx,
    scope: &Scope,
    schedules: &ScheduleCache,
    loan: &mut Loan,
    from: Date,
    reason: ReplayReason,
) -> Result<ReplayResult, LendingError> {
    let affected = AffectedPostings::load(tx, loan, loans::division_day(loan, from), reason).await?;
    let (because, payment_id) = (reason.as_str(), reason.payment_id());
    let number = store::insert_replay(tx, loan.loan_id, from, because, payment_id, affected.events.len()).await?;
    let reversals = affected.reverse(tx, loan, reason).await?;
    let context = ReplayContext { scope, schedules, number, reversals };
    loans::reopen_if_owed(tx, scope, loan).await?;
    let accrued_to = rewind(tx, loan, affected.from).await?;
    let charged_off = ChargedOffPeriod::undo_all(tx, scope, loan, affected.from, number).await?;
    let mut result = ReplayResult::default();
    if let ReplayReason::Returned { payment_id } = reason {
        result.reversal = affected.event_of(payment_id).and_then(|event| context.reversals.get(&event)).copied();
    }
    let steps = affected.steps(from, reason);
    let due = affected.due_dates(loan, reason);
    let days: BTreeSet<Date> = affected
        .accrual_days()
        .chain(steps.iter().map(|step| loans::division_day(loan, step.day)))
        .chain(due.values().copied())
        .chain(charged_off.iter().map(|period| period.from))
        .chain(accrued_to)
        .collect();
    let statuses = loans::statuses(tx, loan).await?;
    for day in days {
        accrue_again(tx, scope, loan, &statuses, day, number).await?;
        let schedule = schedules.schedule_of(tx, loan).await?;
        let books = loans::books_as_of(tx, loan, day).await?;
        loans::update_late_fees(tx, scope, loan, &schedule, &books, day).await?;
        for (instalment, _) in due.iter().filter(|(_, due_date)| **due_date == day) {
            apply_suspense::apply_to_instalment(tx, scope, schedules, loan, &statuses, *instalment, day).await?;
        }
        for step in steps.iter().filter(|step| loans::division_day(loan, step.day) == day) {
            let held = statuses.on(step.day).payment_rule() == PaymentRule::Hold;
            let posted = step.post(tx, &context, loan, held).await?;
            result.posted = posted.or(result.posted);
        }
        for period in charged_off.iter().filter(|period| period.from == day) {
            period.post_again(tx, scope, loan, number).await?;
        }
        // From the day on which nothing is owed, no interest accrues and no fee is charged.
        loans::settle_if_paid(tx, scope, loan, day).await?;
    }
    let entry = Entry::new("loan_replayed").object("loan", loan.loan_id).loan(loan.loan_id);
    let payload = json!({
        "replay": number, "because": because, "payment_id": payment_id, "from_day": from,
        "taken_back": affected.events.len()
    });
    audit::record_as(tx, scope, entry.payload(payload))?;
    Ok(result)
}

/// Replays `loan`, which must be locked, after a change of status that may count from a past day. Payments since that
/// day are applied or held, and late fees charged or not, according to the status on their day.
pub(crate) async fn replay_status_change(tx: &mut Tx, loan: &mut Loan) -> Result<(), LendingError> {
    let scope = &tx.scope().clone();
    let from = loan.status_since;
    let Some(accrued_to) = loan.accrued_to.filter(|_| can_be_replayed(loan) && from >= loan.calendar.funded_on())
    else {
        return Ok(());
    };
    let affected =
        store::events_in_force_after(tx, loan.loan_id, from, DEPENDENT_ON_STATUS, DEPENDENT_ON_STATUS, 1).await?;
    if affected.is_empty() {
        loans::review_late_fees(tx, scope, loan, accrued_to).await?;
        return Ok(());
    }
    replay(tx, scope, &ScheduleCache::with_capacity(1), loan, from, ReplayReason::StatusChanged).await?;
    Ok(())
}

/// The outcome of a request to post a payment again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RepostOutcome {
    /// The payment, and what came after it, was posted again.
    Reposted,
    /// The payment is not posted.
    NotPosted,
    /// The payment cannot be posted again, with the reason.
    Refused(&'static str),
}

/// Posts a payment, and what came after it, again by the current rules and terms.
pub(crate) async fn repost_payment(
    tx: &mut Tx,
    schedules: &ScheduleCache,
    payment_id: Uuid,
    loan_id: Uuid,
) -> Result<RepostOutcome, LendingError> {
    let scope = &tx.scope().clone();
    let mut loan = loans::store::lock_loan(tx, loan_id).await?.ok_or(LendingError::LoanMissing(loan_id))?;
    let Some(posted) = store::find_posted(tx, &[payment_id]).await?.pop() else {
        return Ok(RepostOutcome::NotPosted);
    };
    if posted.returned {
        return Ok(RepostOutcome::Refused("the payment was returned"));
    }
    if !can_be_replayed(&loan) || posted.effective_date < loan.calendar.funded_on() {
        let reason = "the loan's terms or status have changed since: correct it by other postings";
        return Ok(RepostOutcome::Refused(reason));
    }
    let reason = ReplayReason::Requested { payment_id };
    replay(tx, scope, schedules, &mut loan, posted.effective_date, reason).await?;
    let day = loan.accrued_to.unwrap_or(posted.effective_date);
    loans::settle_if_paid(tx, scope, &mut loan, day).await?;
    Ok(RepostOutcome::Reposted)
}

/// Returns whether reversed interest can be booked again: it accrues, or will when a paid debt is open again.
pub(crate) fn can_be_replayed(loan: &Loan) -> bool {
    loan.status.accrues_interest() || loan.status == LoanStatus::PaidOff
}

/// Sets `accrued_to` back to what the remaining events support. Returns its previous value.
async fn rewind(tx: &Tx, loan: &mut Loan, from: Date) -> Result<Option<Date>, LendingError> {
    let accrued_to = loan.accrued_to;
    if accrued_to.is_some_and(|accrued_to| accrued_to > from) {
        let supported = store::accrued_by(tx, loan.loan_id, postings::ACCRUAL, from).await?;
        let start = loan.calendar.funded_on();
        loan.accrued_to = Some(supported.map_or(start, |supported| supported.max(start)));
    }
    Ok(accrued_to)
}

/// As [`loans::accrue`], with ids of this replay: the original ones are in use.
async fn accrue_again(
    tx: &mut Tx,
    scope: &Scope,
    loan: &mut Loan,
    statuses: &StatusHistory,
    up_to: Date,
    replay: i32,
) -> Result<(), LendingError> {
    let Some(accrued_to) = loan.accrued_to.filter(|accrued_to| *accrued_to < up_to) else {
        return Ok(());
    };
    if !loan.status.accrues_interest() {
        return Ok(());
    }
    let principal = loans::books(tx, loan, accrued_to).await?.principal.while_accruing(statuses);
    let accruals = model::accruals(&loan.policy, &loan.calendar, &principal, accrued_to, up_to)?;
    let mut events = Vec::with_capacity(accruals.len());
    for accrual in &accruals {
        let id = format!("accrual:{}:{}:{}:replay:{replay}", loan.loan_id, accrual.from, accrual.to);
        let event = postings::accrual(loan, accrual, id);
        let payload = json!({"event_id": event.event_id, "accrual": accrual, "replay": replay});
        let entry = Entry::new("interest_accrued").object("loan", loan.loan_id).loan(loan.loan_id);
        audit::record_as(tx, scope, entry.payload(payload))?;
        events.push(event);
    }
    ledger::post_all(tx, &events).await?;
    loans::store::set_accrued_to(tx, &[loan.loan_id], &[up_to]).await?;
    loan.accrued_to = Some(up_to);
    Ok(())
}
