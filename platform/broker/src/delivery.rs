//! A message on its way to a handler, and its settlement.

use jiff::Timestamp;
use onceward_envelope::{Envelope, TenantId};
use std::{fmt, time::Duration};

/// One delivery of a message.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The message.
    pub envelope: Envelope,
    /// The `<exchange>:<routing key>` that it was published to.
    pub topic: String,
    /// Messages with equal keys are handled one after the other.
    pub ordering_key: Option<String>,
    /// 0 is the lowest.
    pub priority: u8,
    /// The tenant in whose queue the message was found; it differs from the envelope's only after tampering.
    pub queue_tenant: TenantId,
    /// The attempt's number, starting at 1.
    pub attempt: u32,
    /// When it was published.
    pub published_at: Timestamp,
    /// The error of the first failed attempt.
    pub first_error: Option<String>,
    /// When the first attempt failed.
    pub first_failed_at: Option<Timestamp>,
    /// Since when every worker that received it has not known its type or version.
    pub unknown_since: Option<Timestamp>,
}

/// The settlement of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// Handled; the effects are in the transaction.
    Done,
    /// Try again later; the attempt counts.
    Retry {
        /// How long to wait.
        after: Duration,
        /// What went wrong, without personal data.
        error: String,
    },
    /// Try again later; the message was not attempted, so nothing counts.
    Wait {
        /// How long to wait.
        after: Duration,
        /// The reason for waiting.
        reason: String,
    },
    /// This worker does not know its type or version. Try again later; the message was not attempted, so nothing
    /// counts.
    Unknown {
        /// How long to wait.
        after: Duration,
        /// The unknown type or version.
        reason: String,
    },
    /// Not handled, because an earlier message of its key is waiting.
    Behind,
    /// Dead-lettered, for a person to inspect.
    Dead {
        /// The kind of failure.
        reason: DeadReason,
        /// What went wrong, without personal data.
        error: String,
    },
}

/// Why a message is a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadReason {
    /// The handler reported that no attempt can succeed.
    Rejected,
    /// The last attempt that the policy allows failed.
    AttemptsExhausted,
    /// The payload violates its contract.
    SchemaViolation,
    /// The message names a different tenant than the queue in which it was found.
    TenantMismatch,
    /// It waited longer than its queue allows.
    Expired,
    /// Its workers died too often while handling it.
    DeliveryLimit,
    /// It cannot be parsed.
    Malformed,
    /// Its version is older than any that this consumer still handles.
    RetiredVersion,
    /// Its type or version stayed unknown to all workers for longer than such messages may wait.
    UnknownType,
    /// The bus refused it.
    RefusedByBus,
}

impl DeadReason {
    /// Returns the name that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::SchemaViolation => "schema_violation",
            Self::TenantMismatch => "tenant_mismatch",
            Self::Expired => "expired",
            Self::DeliveryLimit => "delivery_limit",
            Self::Malformed => "malformed",
            Self::RetiredVersion => "retired_version",
            Self::UnknownType => "unknown_type",
            Self::RefusedByBus => "refused_by_bus",
        }
    }
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
