//! One payment or allocation that a replay posts.

use crate::LendingError;
use crate::loans::store::ScheduleCache;
use crate::loans::{self, Loan, postings};
use crate::model::{self, Allocation, AllocationHints, Dues};
use crate::payments::{
    commands::allocate_suspense,
    events::{PaymentReposted, payment_story},
    store::{self, NewAllocation, NewRepost, PostedPayment, RequestedAllocation},
};
use jiff::civil::Date;
use onceward::{Scope, Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger as ledger;
use onceward_money::Minor;
use serde_json::json;
use std::collections::HashMap;
use uuid::Uuid;

/// A payment or an allocation to post.
pub(super) struct ReplayStep<'p> {
    pub(super) day: Date,
    /// Orders the steps of a day as they were first posted.
    pub(super) order: Uuid,
    pub(super) action: ReplayAction<'p>,
}

/// The posting to make.
pub(super) enum ReplayAction<'p> {
    /// A backdated payment.
    NewPayment { payment_id: Uuid, amount: Minor, hints: AllocationHints, event_id: Uuid },
    /// A payment that was posted before.
    Repost(&'p PostedPayment),
    /// An allocation from suspense that an operator requested.
    Allocation(&'p RequestedAllocation),
}

/// What all steps of a replay share.
pub(super) struct ReplayContext<'c> {
    pub(super) scope: &'c Scope,
    pub(super) schedules: &'c ScheduleCache,
    /// The number of the replay among those of its loan.
    pub(super) number: i32,
    /// The reversal of each reversed event.
    pub(super) reversals: HashMap<Uuid, Uuid>,
}

impl ReplayStep<'_> {
    /// Returns the event and division of a new payment. A payment of a day on which payments are `held` goes to
    /// suspense.
    pub(super) async fn post(
        &self,
        tx: &mut Tx,
        context: &ReplayContext<'_>,
        loan: &Loan,
        held: bool,
    ) -> Result<Option<(Uuid, Vec<Allocation>)>, LendingError> {
        let (schedules, day) = (context.schedules, loans::division_day(loan, self.day));
        match &self.action {
            ReplayAction::NewPayment { payment_id, amount, hints, event_id } => {
                let applied = divide(tx, schedules, loan, day, *amount, *hints, held).await?;
                let lines = postings::payment_lines(*amount, &applied)?;
                let story = payment_story(*payment_id);
                let mut event = postings::event(loan, postings::payment_schema(*hints), self.day, story, lines);
                event.event_id = *event_id;
                ledger::post(tx, &event).await?;
                Ok(Some((*event_id, applied)))
            }
            ReplayAction::Repost(posted) => {
                let hints = AllocationHints::from_stored(&posted.hints);
                let applied = divide(tx, schedules, loan, day, posted.amount, hints, held).await?;
                repost(tx, context, loan, posted, hints, applied).await?;
                Ok(None)
            }
            ReplayAction::Allocation(requested) => {
                let schedule = schedules.schedule_of(tx, loan).await?;
                let books = loans::books_as_of(tx, loan, day).await?;
                let applied = allocate_suspense::divide(loan, &schedule, books, day)?;
                let allocation = NewAllocation {
                    allocation_id: requested.allocation_id,
                    version: requested.version + 1,
                    loan_id: loan.loan_id,
                    effective_date: self.day,
                    instalment: None,
                    event_id: None,
                    applied: &applied,
                };
                allocate_suspense::record(tx, loan, allocation).await?;
                Ok(None)
            }
        }
    }
}

async fn divide(
    tx: &Tx,
    schedules: &ScheduleCache,
    loan: &Loan,
    day: Date,
    amount: Minor,
    hints: AllocationHints,
    held: bool,
) -> Result<Vec<Allocation>, LendingError> {
    if held {
        return Ok(model::hold(amount));
    }
    let schedule = schedules.schedule_of(tx, loan).await?;
    let books = loans::books_as_of(tx, loan, day).await?;
    let dues = Dues::on(day, &loan.policy, &loan.calendar, &schedule, &books)?;
    Ok(model::allocate(amount, &loan.policy, &dues.outstanding, hints)?)
}

/// Posts a payment as its next version, and stores, audits and publishes that.
async fn repost(
    tx: &mut Tx,
    context: &ReplayContext<'_>,
    loan: &Loan,
    posted: &PostedPayment,
    hints: AllocationHints,
    applied: Vec<Allocation>,
) -> Result<(), LendingError> {
    let (replay, reversal_id) = (context.number, context.reversals[&posted.event_id]);
    let (payment_id, version) = (posted.payment_id, posted.version + 1);
    let correlation_id = format!("{}:replay:{replay}", payment_story(payment_id));
    let lines = postings::payment_lines(posted.amount, &applied)?;
    let event = postings::event(loan, postings::payment_schema(hints), posted.effective_date, correlation_id, lines);
    let (event_id, replaces) = (event.event_id, posted.event_id);
    ledger::post(tx, &event).await?;
    let row = NewRepost { payment_id, version, event_id, replaces, reversal_id, applied: &applied, replay };
    store::insert_repost(tx, &row).await?;
    let entry = Entry::new("payment_replayed").object("payment", payment_id).loan(loan.loan_id);
    let old = json!({"event_id": replaces, "applied": posted.applied});
    let new = json!({"event_id": event_id, "applied": applied});
    audit::record_as(tx, context.scope, entry.old(old).new_value(new).payload(json!({ "replay": replay })))?;
    let reposted = PaymentReposted {
        payment_id,
        loan_id: loan.loan_id,
        event_id,
        replaces,
        version,
        effective_date: posted.effective_date,
        applied,
    };
    outbox::publish_as(tx, context.scope, &reposted).await?;
    Ok(())
}
