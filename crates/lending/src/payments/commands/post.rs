//! Posting a payment: locked, accrued, divided, in the ledger and told of, in one transaction.

use super::{
    place::{self, Schedules},
    replay::{self, Because},
};
use crate::LendingError;
use crate::loans::{self, Loan, postings};
use crate::model::{Allocation, Books, PaymentRule, Schedule};
use crate::payments::{
    events::{NewBalances, PaymentPosted, story_of},
    metrics, posting,
    store::{self, State},
};
use futures_util::try_join;
use jiff::{Timestamp, civil::Date};
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger::{self as ledger, Account, Balances, NewEvent};
use onceward_money::Minor;
use serde_json::json;
use std::sync::Arc;
use uuid::Uuid;

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
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

pub(crate) async fn post(
    tx: &mut Tx,
    schedules: &Schedules,
    which: Which,
    now: Timestamp,
) -> Result<Outcome, LendingError> {
    let Which { payment_id, loan_id, amount, effective_date } = which;
    let Some(mut loan) = loans::store::lock_loan(tx, loan_id).await? else {
        return Ok(Outcome::Refused("there is no such loan"));
    };
    let held = loan.status.payment_rule() != PaymentRule::Apply;
    let day = place::divided_on(&loan, effective_date);
    if !held {
        loans::accrue(tx, &mut loan, day).await?;
    }
    let schedule = schedules.of(tx, &loan).await?;
    let (state, (books, balances)) = try_join!(
        async { store::posting_state(tx, payment_id).await.map_err(LendingError::from) },
        place::books_now(tx, &loan, &schedule, day),
    )?;
    let state = match state {
        None => return Ok(Outcome::Refused("there is no such payment")),
        Some(state) if !is_meant(&state, loan_id, amount, effective_date) => {
            return Ok(Outcome::Refused("the payment of this id is for another loan, amount or day"));
        }
        Some(state) if state.posted => return Ok(Outcome::Before),
        Some(state) => state,
    };
    let Some(validated_at) = state.validated_at else {
        return Ok(Outcome::Refused("the payment was not found good"));
    };
    if !held && is_backdated(&loan, &state) {
        backdated(tx, schedules, &mut loan, payment_id, &state).await?;
    } else {
        let standing = Standing { schedule, books, balances, day };
        in_order(tx, &mut loan, standing, payment_id, &state, held).await?;
    }
    metrics::posting_took(validated_at, now);
    Ok(Outcome::Posted)
}

fn is_meant(state: &State, loan_id: Uuid, amount: Option<Minor>, effective_date: Date) -> bool {
    state.loan_id == loan_id
        && amount.is_none_or(|amount| amount == state.amount)
        && state.effective_date == effective_date
}

/// Whether something that is in the books depends on it.
fn is_backdated(loan: &Loan, state: &State) -> bool {
    state.later || loan.accrued_to.is_some_and(|accrued_to| accrued_to > state.effective_date)
}

/// Where the loan stands on the day on which the payment is divided.
struct Standing {
    schedule: Arc<Schedule>,
    books: Books,
    balances: Balances,
    day: Date,
}

async fn in_order(
    tx: &mut Tx,
    loan: &mut Loan,
    mut standing: Standing,
    payment_id: Uuid,
    state: &State,
    held: bool,
) -> Result<(), LendingError> {
    let applied = if held { posting::held(state.amount) } else { divide(tx, loan, &mut standing, state).await? };
    let event = event(loan, payment_id, state, &applied);
    let mut balances = standing.balances;
    balances.apply(&event.lines)?;
    let new_balances = posting::told(&balances)?;
    try_join!(async { ledger::post(tx, &event).await.map_err(LendingError::from) }, async {
        let written = store::insert_posting(tx, payment_id, event.event_id, &applied, new_balances, held).await;
        written.map_err(LendingError::from)
    })?;
    tell(tx, loan, payment_id, event.event_id, state.effective_date, applied, new_balances).await?;
    if !is_owed(&balances) {
        loans::settle_if_paid(tx, loan, state.effective_date).await?;
    }
    Ok(())
}

/// Late fees up to the payment's day come first, as interest has.
async fn divide(
    tx: &mut Tx,
    loan: &Loan,
    standing: &mut Standing,
    state: &State,
) -> Result<Vec<Allocation>, LendingError> {
    let day = standing.day;
    if place::late_fees_by(tx, loan, &standing.schedule, &standing.books, day).await? {
        (standing.books, standing.balances) = place::books_now(tx, loan, &standing.schedule, day).await?;
    }
    let outstanding = place::outstanding(loan, &standing.schedule, &standing.books, day)?;
    place::divide(loan, &outstanding, state.amount, place::hints(&state.hints))
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
    store::insert_posting(tx, payment_id, event_id, &applied, new_balances, false).await?;
    tell(tx, loan, payment_id, event_id, state.effective_date, applied, new_balances).await?;
    let day = loan.accrued_to.unwrap_or(state.effective_date);
    loans::settle_if_paid(tx, loan, day).await?;
    Ok(())
}

fn event(loan: &Loan, payment_id: Uuid, state: &State, applied: &[Allocation]) -> NewEvent {
    let lines = posting::payment_lines(state.amount, applied);
    let schema = posting::schema(place::hints(&state.hints));
    postings::event(loan, schema, state.effective_date, story_of(payment_id), lines)
}

async fn tell(
    tx: &mut Tx,
    loan: &Loan,
    payment_id: Uuid,
    event_id: Uuid,
    effective_date: Date,
    applied: Vec<Allocation>,
    new_balances: NewBalances,
) -> Result<(), LendingError> {
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
