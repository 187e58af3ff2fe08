//! Errors of the ledger.

use onceward_db::DbError;
use onceward_money::{Minor, MoneyError};
use uuid::Uuid;

/// Why nothing was posted. Only [`LedgerError::Db`] and [`LedgerError::Money`] may have aborted the transaction.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The correlation id was used before: `event_id` is this posting.
    #[error("this was posted before, as event {event_id}")]
    AlreadyPosted {
        /// The event that has the correlation id.
        event_id: Uuid,
    },
    /// The event has already been reversed.
    #[error("the event was reversed before, by event {by}")]
    AlreadyReversed {
        /// The reversal.
        by: Uuid,
    },
    /// No final event has this id.
    #[error("there is no final event {event_id}")]
    NotFound {
        /// The requested id.
        event_id: Uuid,
    },
    /// An event needs lines on both sides.
    #[error("event {event_id} has {lines} lines; it must have 2 to {max}", max = crate::event::MAX_LINES)]
    LineCount {
        /// The event.
        event_id: Uuid,
        /// The number of its lines.
        lines: usize,
    },
    /// A line's amount is zero or less.
    #[error("line {line} of event {event_id} is not positive; move it to the other side or omit it")]
    NotPositive {
        /// The event.
        event_id: Uuid,
        /// The line's number, from 1.
        line: usize,
    },
    /// Debits and credits differ.
    #[error("event {event_id} does not balance: {debits} debited, {credits} credited")]
    Unbalanced {
        /// The event.
        event_id: Uuid,
        /// The sum of the debits.
        debits: Minor,
        /// The sum of the credits.
        credits: Minor,
    },
    /// The correlation id is empty or too long.
    #[error("the correlation id of event {event_id} must have 1 to 255 characters")]
    CorrelationId {
        /// The event.
        event_id: Uuid,
    },
    /// Two events of one call have the same id.
    #[error("event id {event_id} occurs twice; use a new id for each event")]
    RepeatedId {
        /// The id.
        event_id: Uuid,
    },
    /// One call contains too many events.
    #[error("one call has {count} events; post at most {max} at once", max = crate::MAX_EVENTS)]
    TooMany {
        /// The number of events.
        count: usize,
    },
    /// An amount or a balance does not fit.
    #[error(transparent)]
    Money(#[from] MoneyError),
    /// The database refused the statement or did not answer.
    #[error(transparent)]
    Db(DbError),
}

const NUMERIC_VALUE_OUT_OF_RANGE: &str = "22003";

impl LedgerError {
    /// Whether retrying the whole transaction may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Db(error) if error.is_transient())
    }
}

impl From<DbError> for LedgerError {
    fn from(error: DbError) -> Self {
        match error.sql_state() {
            Some(state) if state.code() == NUMERIC_VALUE_OUT_OF_RANGE => Self::Money(MoneyError::Overflow),
            _ => Self::Db(error),
        }
    }
}
