//! Why a call was not made, or why it failed.

use std::time::Duration;

/// What a call's closure returns on failure. The kind decides what the failure says about the destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The destination could not be reached, did not answer in time, or failed: it counts.
    #[error("{0}")]
    Failed(String),
    /// The destination asked for a pause.
    #[error("{error}")]
    Throttled {
        /// The pause (`Retry-After`).
        retry_after: Option<Duration>,
        /// The error.
        error: String,
    },
    /// The destination refused this request: it works, so nothing is counted.
    #[error("{0}")]
    Refused(String),
    /// The caller gave up: nothing is counted.
    #[error("the call was cancelled")]
    Cancelled,
}

/// A call was not made, or says nothing about its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not called: {why}; ask again in {} ms", .after.as_millis())]
pub struct Rejected {
    /// A call has no chance before this time has passed.
    pub after: Duration,
    /// What rejected it.
    pub why: RejectReason,
}

/// What rejected a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// The destination is in trouble.
    #[error("the breaker is open")]
    BreakerOpen,
    /// The call was made as the probe of an open breaker, and failed: the message was not the cause.
    #[error("the breaker stays open, because its probe failed")]
    ProbeFailed,
    /// An operator isolated the destination.
    #[error("the breaker is isolated")]
    Isolated,
    /// Too many calls are in flight.
    #[error("the bulkhead is full")]
    BulkheadFull,
    /// Too many of the calls are retries.
    #[error("the retry budget is empty")]
    BudgetEmpty,
}

/// The result of a call that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The call was not made.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The call was made and failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The deadline has passed, so the call was not made.
    #[error("deadline exceeded")]
    DeadlineExceeded,
    /// No destination of this name is declared.
    #[error("no destination {0:?} is declared; add it to the service")]
    UnknownDestination(String),
}
