//! How a handler says that it did not work, and what should happen next.

use crate::PublishError;
use onceward_db::DbError;
use std::time::Duration;

/// What a handler returns instead of success. Its effects are rolled back in every case.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// May work next time: try again by the consumer's policy.
    Transient {
        /// What went wrong, without personal data.
        error: String,
    },
    /// Try again, but not before a time that the handler knows (`Retry-After`).
    RetryAfter {
        /// How long to wait.
        after: Duration,
        /// What went wrong, without personal data.
        error: String,
    },
    /// Nothing went wrong, it is only too early: look again later, without counting an attempt.
    Snooze {
        /// How long to wait.
        after: Duration,
        /// What is waited for.
        reason: String,
    },
    /// Can never work: dead-letter at once.
    Permanent {
        /// Why not, without personal data.
        reason: String,
    },
}

impl Failure {
    /// May work next time.
    pub fn transient(error: impl ToString) -> Self {
        Self::Transient { error: error.to_string() }
    }

    /// Can never work.
    pub fn permanent(reason: impl ToString) -> Self {
        Self::Permanent { reason: reason.to_string() }
    }

    /// Try again after `after` at the earliest.
    pub fn retry_after(after: Duration, error: impl ToString) -> Self {
        Self::RetryAfter { after, error: error.to_string() }
    }

    /// Too early.
    pub fn snooze(after: Duration, reason: impl ToString) -> Self {
        Self::Snooze { after, reason: reason.to_string() }
    }
}

/// A statement that failed may succeed once data or load have changed, so it is tried again by the
/// policy; after the last attempt it becomes a dead letter with the server's message.
impl From<DbError> for Failure {
    fn from(error: DbError) -> Self {
        Self::transient(error)
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Contract(_) | PublishError::Invalid(_) => Self::permanent(error),
            PublishError::Transport(_) | PublishError::NoPublisher => Self::transient(error),
        }
    }
}
