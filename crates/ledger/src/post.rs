//! Posting: one round trip, however many events.

use crate::{LedgerError, NewEvent, Side, store};
use onceward_db::{DbError, Tx};
use onceward_money::Minor;
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

/// The most events of one call: all of their balances are locked at once.
pub const MAX_EVENTS: usize = 1_000;

/// An event is in the ledger; with the commit, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The event.
    pub event_id: Uuid,
}

/// What became of one event of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was posted.
    Posted(Posted),
    /// Its correlation id has been used, by this event. Nothing was written for it.
    AlreadyPosted {
        /// The event that has the correlation id.
        event_id: Uuid,
    },
}

/// Posts `event` and finalises it. If its correlation id was used before, nothing is written, and the transaction goes on.
pub async fn post(tx: &Tx, event: &NewEvent) -> Result<Posted, LedgerError> {
    match post_all(tx, std::slice::from_ref(event)).await?.as_slice() {
        [Outcome::AlreadyPosted { event_id }] => Err(LedgerError::AlreadyPosted { event_id: *event_id }),
        _ => Ok(Posted { event_id: event.event_id }),
    }
}

/// Posts and finalises `events`, and tells of each, in their order, whether it was posted now or before. One event that
/// cannot be posted at all means that none is.
pub async fn post_all(tx: &Tx, events: &[NewEvent]) -> Result<Vec<Outcome>, LedgerError> {
    tx.tenant()?;
    check(events)?;
    let known = if events.is_empty() { HashMap::new() } else { send(tx, events).await? };
    let outcome = |event: &NewEvent| match known.get(&event.event_id) {
        Some(event_id) => Outcome::AlreadyPosted { event_id: *event_id },
        None => Outcome::Posted(Posted { event_id: event.event_id }),
    };
    Ok(events.iter().map(outcome).collect())
}

fn check(events: &[NewEvent]) -> Result<(), LedgerError> {
    if events.len() > MAX_EVENTS {
        return Err(LedgerError::TooMany { count: events.len() });
    }
    let mut ids = HashSet::with_capacity(events.len());
    for event in events {
        event.check()?;
        if !ids.insert(event.event_id) {
            return Err(LedgerError::RepeatedId { event_id: event.event_id });
        }
    }
    Ok(())
}

/// Gives the events whose correlation ids were used, each with the event that has its id.
async fn send(tx: &Tx, events: &[NewEvent]) -> Result<HashMap<Uuid, Uuid>, LedgerError> {
    let ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
    let loans: Vec<_> = events.iter().map(|event| event.loan_id).collect();
    let schemas: Vec<_> = events.iter().map(|event| event.schema.as_str()).collect();
    let correlation_ids: Vec<_> = events.iter().map(|event| event.correlation_id.as_str()).collect();
    let dates: Vec<_> = events.iter().map(|event| event.effective_date).collect();
    let notes: Vec<_> = events.iter().map(|event| event.note.as_deref()).collect();
    let lines = Lines::of(events);
    let rows = tx
        .query(
            store::POST,
            &[
                &ids,
                &loans,
                &schemas,
                &correlation_ids,
                &dates,
                &notes,
                &lines.events,
                &lines.numbers,
                &lines.accounts,
                &lines.currencies,
                &lines.debits,
                &lines.credits,
                &lines.memos,
            ],
        )
        .await?;
    let known = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    Ok(known.collect::<Result<_, DbError>>()?)
}

/// The lines of all events, a column each.
#[derive(Default)]
struct Lines<'a> {
    /// Which event, from 1, as the database counts.
    events: Vec<i32>,
    numbers: Vec<i16>,
    accounts: Vec<&'a str>,
    currencies: Vec<&'a str>,
    debits: Vec<Minor>,
    credits: Vec<Minor>,
    memos: Vec<&'a str>,
}

impl<'a> Lines<'a> {
    fn of(events: &'a [NewEvent]) -> Self {
        let mut lines = Self::default();
        for (event_number, event) in (1..).zip(events) {
            for (number, line) in (1..).zip(&event.lines) {
                let (debit, credit) = match line.side {
                    Side::Debit => (line.amount, Minor::ZERO),
                    Side::Credit => (Minor::ZERO, line.amount),
                };
                lines.events.push(event_number);
                lines.numbers.push(number);
                lines.accounts.push(line.account.as_str());
                lines.currencies.push(event.currency.as_str());
                lines.debits.push(debit);
                lines.credits.push(credit);
                lines.memos.push(&line.memo);
            }
        }
        lines
    }
}
