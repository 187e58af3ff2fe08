//! One report about one recipient of a mail.

use jiff::Timestamp;
use onceward_mail::bounce::DeliveryRank;
use uuid::Uuid;

/// What a report is about, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Feedback {
    /// Who reported: `resend`, `lmtp` or `maildir`.
    pub source: &'static str,
    /// The id of the report at its source. The same report is recorded once.
    pub source_id: String,
    pub email_id: Uuid,
    pub position: i16,
    pub kind: FeedbackKind,
    pub joined_by: JoinedBy,
    pub occurred_at: Timestamp,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FeedbackKind {
    /// The recipient's system has the mail.
    Delivered,
    /// The recipient's system does not take it yet.
    Deferred,
    /// It could not be delivered.
    Bounced {
        /// Whether the address does not exist.
        is_hard: bool,
        /// The class of the failure, for example `mailbox_full`.
        class: String,
        /// The enhanced status code, for example `5.1.1`.
        status: Option<String>,
    },
    /// The recipient reported it as spam.
    Complained,
}

/// What proves that a report belongs to its mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinedBy {
    /// A token that we signed.
    Token,
    /// The id that the provider gave the mail, in an event that the provider signed.
    ProviderId,
    /// The Message-ID, which everybody knows who has seen the mail: weak evidence.
    MessageId,
}

impl FeedbackKind {
    /// Returns the name that the database and metrics use.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Deferred => "deferred",
            Self::Bounced { .. } => "bounced",
            Self::Complained => "complained",
        }
    }

    /// Returns the type of the audit entry.
    pub(super) fn audit_type(&self) -> &'static str {
        match self {
            Self::Delivered => "CRM.EMAIL.DELIVERED",
            Self::Deferred => "CRM.EMAIL.DEFERRED",
            Self::Bounced { .. } => "CRM.EMAIL.BOUNCED",
            Self::Complained => "CRM.EMAIL.COMPLAINED",
        }
    }

    /// Returns whether it proves that the address does not exist.
    pub(super) fn is_hard(&self) -> bool {
        matches!(self, Self::Bounced { is_hard: true, .. })
    }
}

/// Returns the rank of a stored kind. The database allows no other names.
pub(super) fn rank_of(kind: &str) -> DeliveryRank {
    match kind {
        "delivered" => DeliveryRank::Delivered,
        "deferred" => DeliveryRank::Deferred,
        "bounced" => DeliveryRank::Bounced,
        _ => DeliveryRank::Complained,
    }
}

impl JoinedBy {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::ProviderId => "provider_id",
            Self::MessageId => "message_id",
        }
    }
}
