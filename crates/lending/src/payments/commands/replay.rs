//! Something takes effect before what is posted already.
//!
//! ```text
//!   day 1        day 5            day 7       day 9          a payment of day 3 arrives
//!   payment A    interest to 5    payment B   interest to 9
//!                └──────────── taken back, newest first, each on its own day ┘
//!   payment A    new (3)   interest to 5   payment B again (7)   interest to 9
//! ```
//!
//! Nothing in the ledger is changed: what depends on the day is reversed, each event on its own day, and posted again in
//! the order of days, with interest and late fees as they now are. So the balances as of any day are those that they
//! would be had everything come in order.

use super::place::{self, Schedules};
use crate::LendingError;
use crate::loans::{self, Loan, postings};
use crate::model::{self, Allocation, Hints, LoanStatus};
use crate::payments::{
    events::{PaymentReposted, story_of},
    posting::{self, ALLOCATION},
    store::{self, Alive, Allocated, Posted, Repost, Taken},
};
use jiff::civil::Date;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger as ledger;
use onceward_money::Minor;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use uuid::Uuid;

/// The most events that are taken back at once. Who needs more has a case for a person.
const MOST_EVENTS: usize = 2_000;
const DEPENDENT: &[&str] =
    &[postings::PAYMENT, postings::PREPAYMENT, ALLOCATION, postings::ACCRUAL, postings::LATE_FEE];
const PAYING: &[&str] = &[postings::PAYMENT, postings::PREPAYMENT, ALLOCATION];

/// Why the past changes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Because {
    /// A payment came late. It is posted with the replay, as this event.
    Backdated { amount: Minor, hints: Hints, event_id: Uuid },
    /// The payment went back. It is taken back and not posted again.
    Returned,
    /// Somebody asked for the payment, and what came after it, to be posted again.
    AskedFor,
}

impl Because {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Backdated { .. } => "backdated",
            Self::Returned => "returned",
            Self::AskedFor => "asked_for",
        }
    }
}

/// What a replay did.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// The event and the division of the payment that was backdated.
    pub posted: Option<(Uuid, Vec<Allocation>)>,
    /// The reversal of the payment that went back.
    pub reversal: Option<Uuid>,
}

/// Replays `loan`, which is locked, from `from` on, because of a payment of that day.
pub(crate) async fn replay(
    tx: &mut Tx,
    schedules: &Schedules,
    loan: &mut Loan,
    from: Date,
    payment_id: Uuid,
    because: Because,
) -> Result<Replayed, LendingError> {
    let past = Past::load(tx, loan, place::divided_on(loan, from), because).await?;
    let number = store::insert_replay(tx, loan.loan_id, from, because.as_str(), payment_id, past.alive.len()).await?;
    let reversals = past.take_back(tx, loan, payment_id, because).await?;
    loans::reopen_if_owed(tx, loan).await?;
    let accrued_to = rewind(tx, loan, past.from).await?;
    let mut replayed = Replayed::default();
    if matches!(because, Because::Returned) {
        replayed.reversal = past.event_of(payment_id).and_then(|event| reversals.get(&event)).copied();
    }
    let items = past.items(from, payment_id, because);
    let days: BTreeSet<Date> = past
        .accrual_days()
        .chain(items.iter().map(|item| place::divided_on(loan, item.day)))
        .chain(accrued_to)
        .collect();
    for day in days {
        accrue_again(tx, loan, day, number).await?;
        let schedule = schedules.of(tx, loan).await?;
        let books = place::books_as_of(tx, loan, day).await?;
        place::late_fees_by(tx, loan, &schedule, &books, day).await?;
        for item in items.iter().filter(|item| place::divided_on(loan, item.day) == day) {
            let posted = item.post(tx, schedules, loan, number, &reversals).await?;
            replayed.posted = posted.or(replayed.posted);
        }
    }
    let entry = Entry::new("loan_replayed").object("loan", loan.loan_id).loan(loan.loan_id);
    let payload = json!({
        "replay": number, "because": because.as_str(), "payment_id": payment_id, "from_day": from,
        "taken_back": past.alive.len()
    });
    audit::record(tx, entry.payload(payload))?;
    Ok(replayed)
}

/// Posts a payment again, and what came after it, by the rules and the terms as they are now. Gives why not, if not.
pub(crate) async fn repost(
    tx: &mut Tx,
    schedules: &Schedules,
    payment_id: Uuid,
    loan_id: Uuid,
) -> Result<Option<&'static str>, LendingError> {
    let mut loan = loans::store::lock_loan(tx, loan_id).await?.ok_or(LendingError::LoanMissing(loan_id))?;
    let Some(posted) = store::find_posted(tx, &[payment_id]).await?.pop() else {
        return Ok(Some("the payment is not posted"));
    };
    if posted.returned {
        return Ok(Some("the payment was returned"));
    }
    if !can_be_replayed(&loan) || posted.effective_date < loan.calendar.funded_on() {
        return Ok(Some("the loan's terms or status have changed since: correct it by other postings"));
    }
    replay(tx, schedules, &mut loan, posted.effective_date, payment_id, Because::AskedFor).await?;
    let day = loan.accrued_to.unwrap_or(posted.effective_date);
    loans::settle_if_paid(tx, &mut loan, day).await?;
    Ok(None)
}

/// Interest that is taken back can be booked again: it runs, or will when what was paid is open again.
pub(crate) fn can_be_replayed(loan: &Loan) -> bool {
    loan.status.accrues_interest() || loan.status == LoanStatus::PaidOff
}

/// What stands in the way.
struct Past {
    from: Date,
    alive: Vec<Alive>,
    payments: Vec<Posted>,
    allocations: Vec<Allocated>,
    late_fees: HashMap<Uuid, u32>,
}

impl Past {
    async fn load(tx: &Tx, loan: &Loan, from: Date, because: Because) -> Result<Self, LendingError> {
        let with_the_day = !matches!(because, Because::Backdated { .. });
        let on_the_day = if with_the_day { PAYING } else { &[] };
        let limit = i64::try_from(MOST_EVENTS).unwrap_or(i64::MAX) + 1;
        let mut alive = store::alive_after(tx, loan.loan_id, from, DEPENDENT, on_the_day, limit).await?;
        if alive.len() > MOST_EVENTS {
            return Err(LendingError::TooMuchToReplay { loan_id: loan.loan_id, most: MOST_EVENTS });
        }
        let charged = loans::store::late_fees(tx, loan.loan_id).await?;
        let late_fees: HashMap<Uuid, u32> =
            charged.into_iter().filter_map(|fee| Some((fee.event_id?, fee.number))).collect();
        // The fees of an earlier schedule were settled with it.
        alive.retain(|event| event.schema != postings::LATE_FEE || late_fees.contains_key(&event.event_id));
        let ids: Vec<Uuid> = alive.iter().filter_map(|event| payment_of(&event.correlation_id)).collect();
        let payments = store::find_posted(tx, &ids).await?;
        let mut allocations = store::find_allocations(tx, loan.loan_id, from).await?;
        allocations.retain(|allocated| with_the_day || allocated.effective_date > from);
        Ok(Self { from, alive, payments, allocations, late_fees })
    }

    /// Newest first. Gives the reversal of each event.
    async fn take_back(
        &self,
        tx: &Tx,
        loan: &Loan,
        payment_id: Uuid,
        because: Because,
    ) -> Result<HashMap<Uuid, Uuid>, LendingError> {
        let returned = matches!(because, Because::Returned).then(|| self.event_of(payment_id)).flatten();
        let mut reversals = HashMap::with_capacity(self.alive.len());
        for event in self.alive.iter().rev() {
            let reversal_id = Uuid::now_v7();
            let (correlation_id, note) = if returned == Some(event.event_id) {
                (format!("{}:return", story_of(payment_id)), "the payment was returned")
            } else {
                (format!("{}:taken_back", event.correlation_id), "posted again, because something before it changed")
            };
            let day = event.effective_date;
            ledger::reverse(tx, event.event_id, reversal_id, day, &correlation_id, Some(note)).await?;
            if let Some(instalment) = self.late_fees.get(&event.event_id) {
                loans::store::mark_late_fee(tx, loan.loan_id, *instalment, None).await?;
            }
            reversals.insert(event.event_id, reversal_id);
        }
        Ok(reversals)
    }

    fn event_of(&self, payment_id: Uuid) -> Option<Uuid> {
        self.payments.iter().find(|posted| posted.payment_id == payment_id).map(|posted| posted.event_id)
    }

    fn accrual_days(&self) -> impl Iterator<Item = Date> {
        let accruals = self.alive.iter().filter(|event| event.schema == postings::ACCRUAL);
        accruals.map(|event| event.effective_date)
    }

    /// What is to be posted, in the order of days, and within a day as it first came.
    fn items(&self, from: Date, payment_id: Uuid, because: Because) -> Vec<Item<'_>> {
        let again = self
            .payments
            .iter()
            .filter(|posted| posted.payment_id != payment_id || matches!(because, Because::AskedFor));
        let again = again.map(|posted| Item {
            day: posted.effective_date,
            order: posted.first_event,
            what: What::Again(posted),
        });
        let allocations = self.allocations.iter().map(|allocated| Item {
            day: allocated.effective_date,
            order: allocated.allocation_id,
            what: What::Allocation(allocated),
        });
        let new = match because {
            Because::Backdated { amount, hints, event_id } => {
                Some(Item { day: from, order: event_id, what: What::New { payment_id, amount, hints, event_id } })
            }
            _ => None,
        };
        let mut items: Vec<Item<'_>> = again.chain(allocations).chain(new).collect();
        items.sort_by_key(|item| (item.day, item.order));
        items
    }
}

/// Something that pays.
struct Item<'p> {
    day: Date,
    order: Uuid,
    what: What<'p>,
}

enum What<'p> {
    New { payment_id: Uuid, amount: Minor, hints: Hints, event_id: Uuid },
    Again(&'p Posted),
    Allocation(&'p Allocated),
}

impl Item<'_> {
    /// Gives event and division of what is new.
    async fn post(
        &self,
        tx: &mut Tx,
        schedules: &Schedules,
        loan: &Loan,
        replay: i32,
        reversals: &HashMap<Uuid, Uuid>,
    ) -> Result<Option<(Uuid, Vec<Allocation>)>, LendingError> {
        let day = place::divided_on(loan, self.day);
        match &self.what {
            What::New { payment_id, amount, hints, event_id } => {
                let applied = divide(tx, schedules, loan, day, *amount, *hints).await?;
                let lines = posting::payment_lines(*amount, &applied);
                let mut event = postings::event(loan, posting::schema(*hints), self.day, story_of(*payment_id), lines);
                event.event_id = *event_id;
                ledger::post(tx, &event).await?;
                Ok(Some((*event_id, applied)))
            }
            What::Again(posted) => {
                let hints = place::hints(&posted.hints);
                let applied = if posted.held {
                    posting::held(posted.amount)
                } else {
                    divide(tx, schedules, loan, day, posted.amount, hints).await?
                };
                post_again(tx, loan, posted, hints, applied, replay, reversals[&posted.event_id]).await?;
                Ok(None)
            }
            What::Allocation(allocated) => {
                let schedule = schedules.of(tx, loan).await?;
                let books = place::books_as_of(tx, loan, day).await?;
                let applied = super::allocate::divide(loan, &schedule, books, day)?;
                let taken = Taken {
                    allocation_id: allocated.allocation_id,
                    version: allocated.version + 1,
                    loan_id: loan.loan_id,
                    effective_date: self.day,
                    event_id: None,
                    applied: &applied,
                };
                super::allocate::record(tx, loan, taken).await?;
                Ok(None)
            }
        }
    }
}

async fn divide(
    tx: &Tx,
    schedules: &Schedules,
    loan: &Loan,
    day: Date,
    amount: Minor,
    hints: Hints,
) -> Result<Vec<Allocation>, LendingError> {
    let schedule = schedules.of(tx, loan).await?;
    let books = place::books_as_of(tx, loan, day).await?;
    place::divide(loan, &place::outstanding(loan, &schedule, &books, day)?, amount, hints)
}

async fn post_again(
    tx: &mut Tx,
    loan: &Loan,
    posted: &Posted,
    hints: Hints,
    applied: Vec<Allocation>,
    replay: i32,
    reversal_id: Uuid,
) -> Result<(), LendingError> {
    let (payment_id, version) = (posted.payment_id, posted.version + 1);
    let correlation_id = format!("{}:replay:{replay}", story_of(payment_id));
    let lines = posting::payment_lines(posted.amount, &applied);
    let event = postings::event(loan, posting::schema(hints), posted.effective_date, correlation_id, lines);
    let (event_id, replaces) = (event.event_id, posted.event_id);
    ledger::post(tx, &event).await?;
    let row = Repost { payment_id, version, event_id, replaces, reversal_id, applied: &applied, replay };
    store::insert_repost(tx, &row).await?;
    let entry = Entry::new("payment_replayed").object("payment", payment_id).loan(loan.loan_id);
    let old = json!({"event_id": replaces, "applied": posted.applied});
    let new = json!({"event_id": event_id, "applied": applied});
    audit::record(tx, entry.old(old).new_value(new).payload(json!({ "replay": replay })))?;
    let reposted = PaymentReposted {
        payment_id,
        loan_id: loan.loan_id,
        event_id,
        replaces,
        version,
        effective_date: posted.effective_date,
        applied,
    };
    outbox::publish(tx, &reposted).await?;
    Ok(())
}

/// Sets interest back to where it still stands. Gives up to when it was booked, if that was further.
async fn rewind(tx: &Tx, loan: &mut Loan, from: Date) -> Result<Option<Date>, LendingError> {
    let accrued_to = loan.accrued_to;
    if accrued_to.is_some_and(|accrued_to| accrued_to > from) {
        let stands = store::accrued_by(tx, loan.loan_id, postings::ACCRUAL, from).await?;
        let start = loan.calendar.funded_on();
        loan.accrued_to = Some(stands.map_or(start, |stands| stands.max(start)));
    }
    Ok(accrued_to)
}

/// As [`loans::accrue`], under ids of this replay: those of the first time are taken.
async fn accrue_again(tx: &mut Tx, loan: &mut Loan, up_to: Date, replay: i32) -> Result<(), LendingError> {
    let Some(accrued_to) = loan.accrued_to.filter(|accrued_to| *accrued_to < up_to) else {
        return Ok(());
    };
    if !loan.status.accrues_interest() {
        return Ok(());
    }
    let books = loans::books(tx, loan, accrued_to).await?;
    let accruals = model::accruals(&loan.policy, &loan.calendar, &books.principal, accrued_to, up_to)?;
    let mut events = Vec::with_capacity(accruals.len());
    for accrual in &accruals {
        let id = format!("accrual:{}:{}:{}:replay:{replay}", loan.loan_id, accrual.from, accrual.to);
        let event = postings::accrual(loan, accrual, id);
        let payload = json!({"event_id": event.event_id, "accrual": accrual, "replay": replay});
        let entry = Entry::new("interest_accrued").object("loan", loan.loan_id).loan(loan.loan_id);
        audit::record(tx, entry.payload(payload))?;
        events.push(event);
    }
    ledger::post_all(tx, &events).await?;
    loans::store::set_accrued_to(tx, &[loan.loan_id], &[up_to]).await?;
    loan.accrued_to = Some(up_to);
    Ok(())
}

/// The payment of a posting's correlation id: `payment:<id>` or `payment:<id>:replay:<n>`.
fn payment_of(correlation_id: &str) -> Option<Uuid> {
    correlation_id.strip_prefix("payment:")?.split(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_is_known_by_its_correlation_id_however_often_it_was_posted() {
        let id = Uuid::now_v7();
        assert_eq!(payment_of(&format!("payment:{id}")), Some(id));
        assert_eq!(payment_of(&format!("payment:{id}:replay:12")), Some(id));
        assert_eq!(payment_of(&format!("accrual:{id}:2026-01-01:2026-01-02")), None);
    }
}
