//! How a handler reports a failure and what should happen next.

use crate::PublishError;
use onceward_db::DbError;
use onceward_outbound::{CallError, OutboundError};
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

/// Rejected messages return a little later than they could, at random, so that they do not return together: by at most this
/// part of the wait …
const REJECTION_JITTER: f64 = 0.1;
/// … and by no more than this, so that a destination that is back has its full rate soon, however long the pause was.
const REJECTION_JITTER_MAX: Duration = Duration::from_secs(3);

/// A call that was not made costs no attempt: the message waits until the breaker, the bulkhead or the budget may allow it.
impl From<OutboundError> for Failure {
    fn from(error: OutboundError) -> Self {
        match &error {
            OutboundError::Rejected(rejected) => {
                let jitter = rejected.after.mul_f64(REJECTION_JITTER).min(REJECTION_JITTER_MAX);
                Self::snooze(rejected.after + jitter.mul_f64(rand::random()), &error)
            }
            OutboundError::Call(CallError::Throttled { retry_after: Some(after), .. }) => {
                Self::retry_after(*after, &error)
            }
            OutboundError::Call(CallError::Failed(_) | CallError::Throttled { .. }) => Self::transient(&error),
            OutboundError::Call(CallError::Cancelled) => Self::snooze(Duration::ZERO, &error),
            OutboundError::Call(CallError::Refused(_))
            | OutboundError::DeadlineExceeded
            | OutboundError::UnknownDestination(_) => Self::permanent(&error),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_outbound::{RejectReason, Rejected};

    #[test]
    fn a_call_that_was_not_made_costs_no_attempt() {
        let after = Duration::from_secs(10);
        for why in [RejectReason::BreakerOpen, RejectReason::BulkheadFull, RejectReason::BudgetEmpty] {
            let failure = Failure::from(OutboundError::from(Rejected { after, why }));
            assert!(
                matches!(failure, Failure::Snooze { after: wait, .. } if wait >= after && wait <= after.mul_f64(1.1))
            );
        }
        let (after, why) = (Duration::from_secs(300), RejectReason::BreakerOpen);
        let failure = Failure::from(OutboundError::from(Rejected { after, why }));
        assert!(matches!(failure, Failure::Snooze { after: wait, .. } if wait <= after + REJECTION_JITTER_MAX));
    }
}
