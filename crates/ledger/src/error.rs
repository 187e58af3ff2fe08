//! Why nothing was posted.

use onceward_db::DbError;
use onceward_money::{Minor, MoneyError};
use uuid::Uuid;

/// Why nothing was posted. Only [`LedgerError::Db`] and [`LedgerError::Money`] may have ended the transaction.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The correlation id has been used: this posting was made before, by `event_id`.
    #[error("this was posted before, as event {event_id}")]
    AlreadyPosted {
        /// The event that has the correlation id.
        event_id: Uuid,
    },
    /// The event has its reversal.
    #[error("the event was reversed before, by event {by}")]
    AlreadyReversed {
        /// The reversal.
        by: Uuid,
    },
    /// There is no final event with this id.
    #[error("there is no final event {event_id}")]
    NotFound {
        /// What was asked for.
        event_id: Uuid,
    },
    /// An event needs lines on both sides.
    #[error("event {event_id} has {lines} lines; give it 2 to {max}", max = crate::event::MAX_LINES)]
    LineCount {
        /// The event.
        event_id: Uuid,
        /// How many it has.
        lines: usize,
    },
    /// A line's amount is zero or less.
    #[error("line {line} of event {event_id} is not positive; move it to the other side or leave it out")]
    NotPositive {
        /// The event.
        event_id: Uuid,
        /// Which line, from 1.
        line: usize,
    },
    /// Debits and credits differ.
    #[error("event {event_id} does not balance: {debits} debited, {credits} credited")]
    Unbalanced {
        /// The event.
        event_id: Uuid,
        /// What is debited.
        debits: Minor,
        /// What is credited.
        credits: Minor,
    },
    /// The correlation id is empty or too long.
    #[error("the correlation id of event {event_id} must have 1 to 255 characters")]
    CorrelationId {
        /// The event.
        event_id: Uuid,
    },
    /// Two events of one call have the same id.
    #[error("event id {event_id} is given twice; make one for each event")]
    RepeatedId {
        /// The id.
        event_id: Uuid,
    },
    /// One call with too many events.
    #[error("{count} events in one call; at most {max}", max = crate::MAX_EVENTS)]
    TooMany {
        /// How many there were.
        count: usize,
    },
    /// An amount or a balance does not fit.
    #[error(transparent)]
    Money(#[from] MoneyError),
    /// The database said no, or nothing.
    #[error(transparent)]
    Db(DbError),
}

const NUMERIC_VALUE_OUT_OF_RANGE: &str = "22003";

impl LedgerError {
    /// Trying the whole transaction again may succeed.
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
