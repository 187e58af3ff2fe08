//! The postings to reverse, and the steps that post them again.

use super::{
    DEPENDENT_ON_STATUS, ReplayReason,
    step::{ReplayAction, ReplayStep},
};
use crate::LendingError;
use crate::loans::{self, Loan, postings};
use crate::payments::{
    commands::apply_suspense,
    events::payment_story,
    store::{self, EventInForce, PostedPayment, RequestedAllocation},
};
use jiff::civil::Date;
use onceward::Tx;
use onceward_ledger as ledger;
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

/// The most events that are reversed at once. A larger replay needs a person's decision.
const MAX_EVENTS: usize = 2_000;
/// The postings that depend on earlier ones.
const DEPENDENT: &[&str] =
    &[postings::PAYMENT, postings::PREPAYMENT, postings::ALLOCATION, postings::ACCRUAL, postings::LATE_FEE];
/// The postings that pay something.
const PAYING: &[&str] = &[postings::PAYMENT, postings::PREPAYMENT, postings::ALLOCATION];

/// The postings after the change that depend on it.
pub(super) struct AffectedPostings {
    pub(super) from: Date,
    /// The events in force that depend on the change, oldest first.
    pub(super) events: Vec<EventInForce>,
    payments: Vec<PostedPayment>,
    allocations: Vec<RequestedAllocation>,
    late_fees: HashMap<Uuid, u32>,
}

impl AffectedPostings {
    pub(super) async fn load(tx: &Tx, loan: &Loan, from: Date, reason: ReplayReason) -> Result<Self, LendingError> {
        let includes_day = !matches!(reason, ReplayReason::Backdated { .. });
        let on_that_day = match reason {
            ReplayReason::Backdated { .. } => &[],
            ReplayReason::Returned { .. } | ReplayReason::Requested { .. } => PAYING,
            ReplayReason::StatusChanged => DEPENDENT_ON_STATUS,
        };
        let limit = i64::try_from(MAX_EVENTS).unwrap_or(i64::MAX) + 1;
        let mut events = store::events_in_force_after(tx, loan.loan_id, from, DEPENDENT, on_that_day, limit).await?;
        if events.len() > MAX_EVENTS {
            return Err(LendingError::ReplayTooLarge { loan_id: loan.loan_id, max: MAX_EVENTS });
        }
        let charged = loans::store::late_fees(tx, loan).await?;
        let late_fees: HashMap<Uuid, u32> =
            charged.into_iter().filter_map(|fee| Some((fee.event_id?, fee.number))).collect();
        // The fees of an earlier schedule were settled with it.
        events.retain(|event| event.schema != postings::LATE_FEE || late_fees.contains_key(&event.event_id));
        let ids: Vec<Uuid> = events.iter().filter_map(|event| payment_of(&event.correlation_id)).collect();
        let payments = store::find_posted(tx, &ids).await?;
        let mut allocations = store::find_allocations(tx, loan.loan_id, from).await?;
        allocations.retain(|allocated| includes_day || allocated.effective_date > from);
        Ok(Self { from, events, payments, allocations, late_fees })
    }

    /// Reverses the events, newest first. Returns the reversal of each event.
    pub(super) async fn reverse(
        &self,
        tx: &Tx,
        loan: &Loan,
        reason: ReplayReason,
    ) -> Result<HashMap<Uuid, Uuid>, LendingError> {
        let returned = match reason {
            ReplayReason::Returned { payment_id } => self.event_of(payment_id).map(|event_id| (payment_id, event_id)),
            _ => None,
        };
        let mut reversals = HashMap::with_capacity(self.events.len());
        for event in self.events.iter().rev() {
            let reversal_id = Uuid::now_v7();
            let (correlation_id, note) = match returned {
                Some((payment_id, event_id)) if event_id == event.event_id => {
                    (format!("{}:return", payment_story(payment_id)), "the payment was returned")
                }
                _ => (
                    format!("{}:taken_back", event.correlation_id),
                    "posted again, because something before it changed",
                ),
            };
            let day = event.effective_date;
            ledger::reverse(tx, event.event_id, reversal_id, day, &correlation_id, Some(note)).await?;
            if let Some(instalment) = self.late_fees.get(&event.event_id) {
                loans::store::mark_late_fee(tx, loan, *instalment, None).await?;
            }
            reversals.insert(event.event_id, reversal_id);
        }
        Ok(reversals)
    }

    pub(super) fn event_of(&self, payment_id: Uuid) -> Option<Uuid> {
        self.payments.iter().find(|posted| posted.payment_id == payment_id).map(|posted| posted.event_id)
    }

    pub(super) fn accrual_days(&self) -> impl Iterator<Item = Date> {
        let accruals = self.events.iter().filter(|event| event.schema == postings::ACCRUAL);
        accruals.map(|event| event.effective_date)
    }

    /// Returns the steps of the replay in the order of days, and within a day in the original order.
    pub(super) fn steps(&self, from: Date, reason: ReplayReason) -> Vec<ReplayStep<'_>> {
        let returned = match reason {
            ReplayReason::Returned { payment_id } => Some(payment_id),
            _ => None,
        };
        let reposts = self.payments.iter().filter(|posted| Some(posted.payment_id) != returned);
        let reposts = reposts.map(|posted| ReplayStep {
            day: posted.effective_date,
            order: posted.first_event,
            action: ReplayAction::Repost(posted),
        });
        let allocations = self.allocations.iter().map(|allocated| ReplayStep {
            day: allocated.effective_date,
            order: allocated.allocation_id,
            action: ReplayAction::Allocation(allocated),
        });
        let new = match reason {
            ReplayReason::Backdated { payment_id, amount, hints, event_id } => Some(ReplayStep {
                day: from,
                order: event_id,
                action: ReplayAction::NewPayment { payment_id, amount, hints, event_id },
            }),
            _ => None,
        };
        let mut steps: Vec<ReplayStep<'_>> = reposts.chain(allocations).chain(new).collect();
        steps.sort_by_key(|step| (step.day, step.order));
        steps
    }

    /// Returns the due dates on which suspense has to be applied again, by the number of their instalment.
    pub(super) fn due_dates(&self, loan: &Loan, reason: ReplayReason) -> BTreeMap<u32, Date> {
        let Some(applied_to) = loan.suspense_applied_to else {
            return BTreeMap::new();
        };
        // A late payment comes after what was applied on its day.
        let after = match reason {
            ReplayReason::Backdated { .. } => self.from,
            _ => self.from.yesterday().unwrap_or(self.from),
        };
        apply_suspense::due_dates(loan, after, applied_to).collect()
    }
}

/// Extracts the payment's id from a posting's correlation id: `payment:<id>` or `payment:<id>:replay:<n>`.
fn payment_of(correlation_id: &str) -> Option<Uuid> {
    correlation_id.strip_prefix("payment:")?.split(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payment_id_is_extracted_from_every_version_of_its_correlation_id() {
        let id = Uuid::now_v7();
        assert_eq!(payment_of(&format!("payment:{id}")), Some(id));
        assert_eq!(payment_of(&format!("payment:{id}:replay:12")), Some(id));
        assert_eq!(payment_of(&format!("accrual:{id}:2026-01-01:2026-01-02")), None);
    }
}
