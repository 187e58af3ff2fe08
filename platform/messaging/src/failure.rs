//! How a handler reports a failure and what should happen next.

use crate::PublishError;
use onceward_db::DbError;
use std::time::Duration;

/// The error type of a handler. The handler's effects are rolled back in every case.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// May succeed next time: retry by the consumer's policy.
    Transient {
        /// The error, without personal data.
        error: String,
    },
    /// Retry, but not before a time that the handler knows (`Retry-After`).
    RetryAfter {
        /// How long to wait.
        after: Duration,
        /// The error, without personal data.
        error: String,
    },
    /// Nothing failed, it is only too early: deliver again later, without counting an attempt.
    Snooze {
        /// How long to wait.
        after: Duration,
        /// The reason for waiting.
        reason: String,
    },
    /// Can never succeed: dead-letter at once.
    Permanent {
        /// The reason, without personal data.
        reason: String,
    },
}

impl Failure {
    /// Creates a failure that may succeed next time.
    pub fn transient(error: impl ToString) -> Self {
        Self::Transient { error: error.to_string() }
    }

    /// Creates a failure that can never succeed.
    pub fn permanent(reason: impl ToString) -> Self {
        Self::Permanent { reason: reason.to_string() }
    }

    /// Creates a failure to be retried after `after` at the earliest.
    pub fn retry_after(after: Duration, error: impl ToString) -> Self {
        Self::RetryAfter { after, error: error.to_string() }
    }

    /// Creates a snooze: it is too early to handle the message.
    pub fn snooze(after: Duration, reason: impl ToString) -> Self {
        Self::Snooze { after, reason: reason.to_string() }
    }
}

/// How long a message waits if the database was unavailable to its handler.
const OUTAGE_WAIT: Duration = Duration::from_secs(5);

/// A failed statement may succeed once data or load have changed, so it is retried by the policy; after the last
/// attempt the message becomes a dead letter with the server's error. An outage of the database does not count as an
/// attempt: the message waits until it is over.
impl From<DbError> for Failure {
    fn from(error: DbError) -> Self {
        if error.is_unavailable() { Self::snooze(OUTAGE_WAIT, error) } else { Self::transient(error) }
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Contract(_) | PublishError::Invalid(_) => Self::permanent(error),
            PublishError::Bus(_) | PublishError::NoPublisher => Self::transient(error),
        }
    }
}
