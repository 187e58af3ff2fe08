//! A message on its way to a handler, and what becomes of it.

use jiff::Timestamp;
use onceward_envelope::{Envelope, TenantId};
use std::{fmt, time::Duration};

/// One message, handed out once.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The message.
    pub envelope: Envelope,
    /// `<exchange>:<routing key>` it was published to.
    pub topic: String,
    /// Messages with equal keys are handled one after the other.
    pub ordering_key: Option<String>,
    /// 0 is the lowest.
    pub priority: u8,
    /// The tenant in whose queue the message was found; differs from the envelope's only if somebody tampered.
    pub queue_tenant: TenantId,
    /// 1 for the first time.
    pub attempt: u32,
    /// When it was published.
    pub published_at: Timestamp,
    /// What the first failed attempt said.
    pub first_error: Option<String>,
    /// When the first attempt failed.
    pub first_failed_at: Option<Timestamp>,
}

/// What is to become of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// Its effects are in the transaction.
    Done,
    /// Try again after a while; the attempt counts.
    Retry {
        /// How long to wait.
        after: Duration,
        /// What went wrong, without personal data.
        error: String,
    },
    /// Look again after a while; no attempt was made, so none counts.
    Wait {
        /// How long to wait.
        after: Duration,
        /// What is waited for.
        reason: String,
    },
    /// Not handled, because an earlier message of its key is waiting.
    Behind,
    /// Put away for good, for a person to look at.
    Dead {
        /// The kind of reason.
        reason: DeadReason,
        /// What went wrong, without personal data.
        error: String,
    },
}

/// Why a message is a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadReason {
    /// The handler said that no attempt can succeed.
    Rejected,
    /// The last attempt that the policy allows failed.
    AttemptsExhausted,
    /// The payload breaks its contract.
    SchemaViolation,
    /// The message names another tenant than the queue it was found in.
    TenantMismatch,
    /// It waited longer than its queue allows.
    Expired,
    /// Its workers died too often while they handled it.
    DeliveryLimit,
    /// It cannot be read at all.
    Malformed,
    /// A version older than any this consumer still handles.
    RetiredVersion,
    /// The bus did not want it.
    RefusedByBus,
}

impl DeadReason {
    /// The word that is stored and shown.
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
            Self::RefusedByBus => "refused_by_bus",
        }
    }
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
