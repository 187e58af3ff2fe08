//! Posting a payment: locked, accrued, divided, in the ledger and told of, in one transaction.

use super::{
    place::{self, Schedules},
    replay::{self, Because},
};
use crate::LendingError;
use crate::loans::{self, Asked, Loan, postings};
use crate::model::{Allocation, Books, PaymentRule, Schedule};
use crate::payments::{
    events::{PaymentPosted, story_of},
    metrics, posting,
    store::{self, Posting, State},
    waves::waves,
};
use futures_util::try_join;
use jiff::{Timestamp, civil::Date};
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger::{self as ledger, Account, Balances, LedgerError, NewEvent};
use onceward_money::Minor;
use serde_json::json;
use std::{collections::HashMap, sync::Arc};
use uuid::Uuid;

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is in the ledger now.
    Posted,
    /// It was before.
    Before,
    /// It may not be posted, and why.
    Refused(&'static str),
}

/// Which payment, as the message says; it must be the one that was found good.
pub(crate) struct Which {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub amount: Option<Minor>,
    pub effective_date: Date,
}

/// Posts one.
pub(crate) async fn post(
    tx: &mut Tx,
    schedules: &Schedules,
    which: Which,
    now: Timestamp,
) -> Result<Outcome, LendingError> {
    let mut outcomes = post_all(tx, schedules, &[which], now, &|_, _| {}).await?;
    Ok(outcomes.pop().expect("there is an outcome for every payment"))
}

/// Posts many, and tells of each, in their order. `enter` is called with its number before anything is published for it.
///
/// Payments of different loans do not depend on each other and are posted by the same statements; a loan's next payment
/// follows when the one before it is in the books.
pub(crate) async fn post_all(
    tx: &mut Tx,
    schedules: &Schedules,
    payments: &[Which],
    now: Timestamp,
    enter: &(dyn Fn(&mut Tx, usize) + Sync),
) -> Result<Vec<Outcome>, LendingError> {
    let mut outcomes = vec![Outcome::Posted; payments.len()];
    for wave in waves(payments.iter().map(|which| which.loan_id)) {
        let (meetings, missing) = meet(tx, schedules, payments, &wave, enter).await?;
        missing.into_iter().for_each(|nth| outcomes[nth] = Outcome::Refused("there is no such loan"));
        let ids: Vec<Uuid> = meetings.iter().map(|meeting| payments[meeting.nth].payment_id).collect();
        let asked: Vec<Asked<'_>> = meetings.iter().map(Meeting::asked).collect();
        let (mut states, books) = try_join!(
            async { store::posting_states(tx, &ids).await.map_err(LendingError::from) },
            loans::books_of_all(tx, &asked),
        )?;
        let mut divided = Vec::with_capacity(meetings.len());
        for (mut meeting, (books, balances)) in meetings.into_iter().zip(books) {
            let (nth, which) = (meeting.nth, &payments[meeting.nth]);
            let (state, validated_at) = match may_post(which, states.remove(&which.payment_id)) {
                Ok(good) => good,
                Err(outcome) => {
                    outcomes[nth] = outcome;
                    continue;
                }
            };
            enter(tx, nth);
            if !meeting.held && is_backdated(&meeting.loan, &state) {
                backdated(tx, schedules, &mut meeting.loan, which.payment_id, &state).await?;
            } else {
                divided.push(meeting.divide(tx, which.payment_id, &state, books, balances).await?);
            }
            metrics::posting_took(validated_at, now);
        }
        write(tx, divided, enter).await?;
    }
    Ok(outcomes)
}

/// A payment and its loan, which is locked and has its interest booked up to the day on which the payment is divided.
struct Meeting {
    nth: usize,
    loan: Loan,
    schedule: Arc<Schedule>,
    day: Date,
    held: bool,
}

/// Also gives the numbers of those whose loan there is not.
async fn meet(
    tx: &mut Tx,
    schedules: &Schedules,
    payments: &[Which],
    wave: &[usize],
    enter: &(dyn Fn(&mut Tx, usize) + Sync),
) -> Result<(Vec<Meeting>, Vec<usize>), LendingError> {
    let ids: Vec<Uuid> = wave.iter().map(|&nth| payments[nth].loan_id).collect();
    let locked = loans::store::lock_loans(tx, &ids).await?;
    let mut loans: HashMap<Uuid, Loan> = locked.into_iter().map(|loan| (loan.loan_id, loan)).collect();
    let (mut meetings, mut missing) = (Vec::with_capacity(wave.len()), Vec::new());
    for &nth in wave {
        let Some(mut loan) = loans.remove(&payments[nth].loan_id) else {
            missing.push(nth);
            continue;
        };
        let held = loan.status.payment_rule() != PaymentRule::Apply;
        let day = place::divided_on(&loan, payments[nth].effective_date);
        if !held {
            enter(tx, nth);
            loans::accrue(tx, &mut loan, day).await?;
        }
        let schedule = schedules.of(tx, &loan).await?;
        meetings.push(Meeting { nth, loan, schedule, day, held });
    }
    Ok((meetings, missing))
}

/// The payment as it was found good, and when that was.
fn may_post(which: &Which, state: Option<State>) -> Result<(State, Timestamp), Outcome> {
    let state = state.ok_or(Outcome::Refused("there is no such payment"))?;
    if !is_meant(&state, which) {
        return Err(Outcome::Refused("the payment of this id is for another loan, amount or day"));
    }
    if state.posted {
        return Err(Outcome::Before);
    }
    let validated_at = state.validated_at.ok_or(Outcome::Refused("the payment was not found good"))?;
    Ok((state, validated_at))
}

fn is_meant(state: &State, which: &Which) -> bool {
    state.loan_id == which.loan_id
        && which.amount.is_none_or(|amount| amount == state.amount)
        && state.effective_date == which.effective_date
}

/// Whether something that is in the books depends on it.
fn is_backdated(loan: &Loan, state: &State) -> bool {
    state.later || loan.accrued_to.is_some_and(|accrued_to| accrued_to > state.effective_date)
}

/// A payment that is divided and can be written.
struct Divided {
    nth: usize,
    loan: Loan,
    event: NewEvent,
    posting: Posting,
    is_owed: bool,
}

impl Meeting {
    fn asked(&self) -> Asked<'_> {
        let with_receipts = place::something_is_due(&self.schedule, self.day);
        Asked { loan: &self.loan, day: self.day, with_receipts }
    }

    async fn divide(
        self,
        tx: &mut Tx,
        payment_id: Uuid,
        state: &State,
        books: Books,
        mut balances: Balances,
    ) -> Result<Divided, LendingError> {
        let applied =
            if self.held { posting::held(state.amount) } else { self.apply(tx, state, books, &mut balances).await? };
        let event = event(&self.loan, payment_id, state, &applied);
        balances.apply(&event.lines)?;
        let new_balances = posting::told(&balances)?;
        let posting = Posting { payment_id, event_id: event.event_id, applied, new_balances, held: self.held };
        Ok(Divided { nth: self.nth, loan: self.loan, event, posting, is_owed: is_owed(&balances) })
    }

    /// Late fees up to the payment's day come first, as interest has.
    async fn apply(
        &self,
        tx: &mut Tx,
        state: &State,
        mut books: Books,
        balances: &mut Balances,
    ) -> Result<Vec<Allocation>, LendingError> {
        let Self { loan, schedule, day, .. } = self;
        if place::late_fees_by(tx, loan, schedule, &books, *day).await? {
            (books, *balances) = place::books_now(tx, loan, schedule, *day).await?;
        }
        let outstanding = place::outstanding(loan, schedule, &books, *day)?;
        place::divide(loan, &outstanding, state.amount, place::hints(&state.hints))
    }
}

async fn write(
    tx: &mut Tx,
    divided: Vec<Divided>,
    enter: &(dyn Fn(&mut Tx, usize) + Sync),
) -> Result<(), LendingError> {
    if divided.is_empty() {
        return Ok(());
    }
    let (mut events, mut postings, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for Divided { nth, loan, event, posting, is_owed } in divided {
        rest.push((nth, loan, event.effective_date, is_owed));
        events.push(event);
        postings.push(posting);
    }
    let (posted, ()) = try_join!(async { ledger::post_all(tx, &events).await.map_err(LendingError::from) }, async {
        store::insert_postings(tx, &postings).await.map_err(LendingError::from)
    })?;
    for outcome in posted {
        if let ledger::Outcome::AlreadyPosted { event_id } = outcome {
            return Err(LedgerError::AlreadyPosted { event_id }.into());
        }
    }
    for ((nth, mut loan, effective_date, is_owed), posting) in rest.into_iter().zip(postings) {
        enter(tx, nth);
        tell(tx, &loan, effective_date, posting).await?;
        if !is_owed {
            loans::settle_if_paid(tx, &mut loan, effective_date).await?;
        }
    }
    Ok(())
}

async fn backdated(
    tx: &mut Tx,
    schedules: &Schedules,
    loan: &mut Loan,
    payment_id: Uuid,
    state: &State,
) -> Result<(), LendingError> {
    let because =
        Because::Backdated { amount: state.amount, hints: place::hints(&state.hints), event_id: Uuid::now_v7() };
    let replayed = replay::replay(tx, schedules, loan, state.effective_date, payment_id, because).await?;
    let (event_id, applied) = replayed.posted.expect("a backdated payment is posted with its replay");
    let balances = ledger::balances(tx, loan.loan_id, loan.currency).await?;
    let new_balances = posting::told(&balances)?;
    let posting = Posting { payment_id, event_id, applied, new_balances, held: false };
    store::insert_postings(tx, std::slice::from_ref(&posting)).await?;
    tell(tx, loan, state.effective_date, posting).await?;
    let day = loan.accrued_to.unwrap_or(state.effective_date);
    loans::settle_if_paid(tx, loan, day).await?;
    Ok(())
}

fn event(loan: &Loan, payment_id: Uuid, state: &State, applied: &[Allocation]) -> NewEvent {
    let lines = posting::payment_lines(state.amount, applied);
    let schema = posting::schema(place::hints(&state.hints));
    postings::event(loan, schema, state.effective_date, story_of(payment_id), lines)
}

async fn tell(tx: &mut Tx, loan: &Loan, effective_date: Date, posting: Posting) -> Result<(), LendingError> {
    let Posting { payment_id, event_id, applied, new_balances, .. } = posting;
    let loan_id = loan.loan_id;
    let payload = json!({"event_id": event_id, "effective_date": effective_date, "applied": applied});
    audit::record(tx, Entry::new("payment_posted").object("payment", payment_id).loan(loan_id).payload(payload))?;
    let posted = PaymentPosted { payment_id, loan_id, event_id, effective_date, applied, new_balances };
    outbox::publish(tx, &posted).await?;
    Ok(())
}

fn is_owed(balances: &Balances) -> bool {
    let owed = [Account::LoanPrincipal, Account::InterestReceivable, Account::FeesReceivable, Account::EscrowLiability];
    owed.into_iter().any(|account| balances.get(account).is_positive())
}
