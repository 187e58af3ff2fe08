//! The messages about what came back. They contain the hash of the address under the tenant's key, never the address.

use crate::topology::NOTIFICATIONS;
use jiff::Timestamp;
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The recipient of a mail, as every message about feedback names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedDelivery {
    /// The report; the same report is published once.
    pub feedback_id: Uuid,
    /// The mail.
    pub email_id: Uuid,
    /// The number of the recipient in the mail, from 0.
    pub position: i16,
    /// The hash of the address under the tenant's key, in hexadecimal.
    pub address_hash: String,
    /// The class of the mail.
    pub mail_class: String,
    /// The loan that the mail is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan_id: Option<String>,
    /// The request that the mail belongs to.
    pub correlation_id: String,
    /// Who reported it: `resend`, `lmtp` or `maildir`.
    pub source: String,
    /// When it happened.
    pub occurred_at: Timestamp,
}

/// The recipient's system has the mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmailDelivered {
    /// The recipient.
    #[serde(flatten)]
    pub delivery: ReportedDelivery,
}

/// The mail could not be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmailBounced {
    /// The recipient.
    #[serde(flatten)]
    pub delivery: ReportedDelivery,
    /// Whether the address does not exist. It is suppressed then.
    pub is_hard: bool,
    /// The class of the failure, for example `mailbox_full`.
    pub bounce_class: String,
    /// The enhanced status code, for example `5.1.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<String>,
}

/// The recipient reported the mail as spam.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmailComplained {
    /// The recipient.
    #[serde(flatten)]
    pub delivery: ReportedDelivery,
}

impl ReportedDelivery {
    fn key(&self, event_type: &str) -> Option<String> {
        Some(format!("{event_type}:{}", self.feedback_id))
    }

    fn aggregate(&self) -> Option<(String, String)> {
        Some(("email".to_owned(), self.email_id.to_string()))
    }
}

macro_rules! feedback_event {
    ($event:ty, $name:literal) => {
        impl Event for $event {
            const TYPE: &'static str = $name;
            const EXCHANGE: &'static str = NOTIFICATIONS;

            fn routing_key(&self, _: &TenantId) -> String {
                Self::TYPE.to_owned()
            }

            fn idempotency_key(&self) -> Option<String> {
                self.delivery.key(Self::TYPE)
            }

            fn correlation_id(&self) -> Option<String> {
                Some(self.delivery.correlation_id.clone())
            }

            fn aggregate(&self) -> Option<(String, String)> {
                self.delivery.aggregate()
            }
        }
    };
}

feedback_event!(EmailDelivered, "crm.email.delivered.v1");
feedback_event!(EmailBounced, "crm.email.bounced.v1");
feedback_event!(EmailComplained, "crm.email.complained.v1");
