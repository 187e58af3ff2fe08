//! Posting: one round trip for any number of events.

use crate::{LedgerError, NewLedgerEvent, Side};
use onceward_db::{DbError, Tx};
use onceward_money::Minor;
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

const POST: &str = "
    SELECT given_id, known_id FROM ledger.post_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

/// The maximum number of events per call: all of their balances are locked at once.
pub const MAX_EVENTS: usize = 1_000;

/// An event that is in the ledger, permanently once the transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedEvent {
    /// The event.
    pub event_id: Uuid,
}

/// The outcome for one event of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostingOutcome {
    /// The event was posted.
    Posted(PostedEvent),
    /// Its correlation id was used before, by this event. Nothing was written for it.
    AlreadyPosted {
        /// The event that has the correlation id.
        event_id: Uuid,
    },
}

/// Posts and finalises `event`. If its correlation id was used before, fails without writing, and the transaction stays
/// usable.
pub async fn post(tx: &Tx, event: &NewLedgerEvent) -> Result<PostedEvent, LedgerError> {
    match post_all(tx, std::slice::from_ref(event)).await?.as_slice() {
        [PostingOutcome::AlreadyPosted { event_id }] => Err(LedgerError::AlreadyPosted { event_id: *event_id }),
        _ => Ok(PostedEvent { event_id: event.event_id }),
    }
}

/// Posts and finalises `events`. Returns for each, in order, whether it was posted now or before. If one event cannot
/// be posted at all, none is.
pub async fn post_all(tx: &Tx, events: &[NewLedgerEvent]) -> Result<Vec<PostingOutcome>, LedgerError> {
    tx.tenant()?;
    check(events)?;
    let known = if events.is_empty() { HashMap::new() } else { insert(tx, events).await? };
    let outcome = |event: &NewLedgerEvent| match known.get(&event.event_id) {
        Some(event_id) => PostingOutcome::AlreadyPosted { event_id: *event_id },
        None => PostingOutcome::Posted(PostedEvent { event_id: event.event_id }),
    };
    Ok(events.iter().map(outcome).collect())
}

fn check(events: &[NewLedgerEvent]) -> Result<(), LedgerError> {
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

/// Returns the events whose correlation ids were used before, each with the event that has its correlation id.
async fn insert(tx: &Tx, events: &[NewLedgerEvent]) -> Result<HashMap<Uuid, Uuid>, LedgerError> {
    let ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
    let loans: Vec<_> = events.iter().map(|event| event.loan_id).collect();
    let schemas: Vec<_> = events.iter().map(|event| event.schema.as_str()).collect();
    let correlation_ids: Vec<_> = events.iter().map(|event| event.correlation_id.as_str()).collect();
    let dates: Vec<_> = events.iter().map(|event| event.effective_date).collect();
    let notes: Vec<_> = events.iter().map(|event| event.note.as_deref()).collect();
    let lines = LineColumns::new(events);
    let rows = tx
        .query(
            POST,
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

/// The lines of all events, by column.
#[derive(Default)]
struct LineColumns<'a> {
    /// The event's number, from 1, as the database counts.
    events: Vec<i32>,
    numbers: Vec<i16>,
    accounts: Vec<&'a str>,
    currencies: Vec<&'a str>,
    debits: Vec<Minor>,
    credits: Vec<Minor>,
    memos: Vec<&'a str>,
}

impl<'a> LineColumns<'a> {
    fn new(events: &'a [NewLedgerEvent]) -> Self {
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
