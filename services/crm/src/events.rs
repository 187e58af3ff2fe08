//! The messages about mails. Their members are fixed for compatibility with existing publishers and consumers, except those
//! marked as ours.

use crate::topology::{EMAIL_REQUESTED_KEY, NOTIFICATIONS};
use jiff::Timestamp;
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// A mail is requested. Any service may publish it; the one that comes from our own routes was checked before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EmailRequested {
    /// Ours: the id of the mail. Without one, the message's id is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email_id: Option<Uuid>,
    /// The loan that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan_id: Option<String>,
    /// Ours: the contact that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact_id: Option<Uuid>,
    /// The user who requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The template.
    pub template_id: String,
    /// Ours: the version of the template. Without one, the version that is current when the message is first handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version: Option<i32>,
    /// The subject. If it is the template's, it is rendered; any other text is used as it is.
    #[serde(default)]
    pub subject: String,
    /// The recipients, as `address` or `Name <address>`.
    pub to: Vec<String>,
    /// The recipients of copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<String>,
    /// The recipients of copies that the others do not see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bcc: Vec<String>,
    /// The template's variables.
    #[serde(default)]
    pub variables: Map<String, Value>,
    /// The attached files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachedFile>,
    /// The request that it belongs to.
    pub correlation_id: String,
    /// Ours: it is not sent after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
}

/// A file of a requested mail: its content, or the hash of an object that was stored before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttachedFile {
    /// The name that the recipient sees.
    pub filename: String,
    /// The content in base64, of a small file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Ours: the SHA-256 of a large file, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The media type.
    #[serde(rename = "type")]
    pub media_type: String,
}

impl Event for EmailRequested {
    const TYPE: &'static str = "crm.email.requested.v1";
    const EXCHANGE: &'static str = NOTIFICATIONS;

    fn routing_key(&self, _: &TenantId) -> String {
        EMAIL_REQUESTED_KEY.to_owned()
    }

    fn idempotency_key(&self) -> Option<String> {
        self.email_id.map(|id| format!("{}:{id}", Self::TYPE))
    }

    fn aggregate(&self) -> Option<(String, String)> {
        self.email_id.map(email)
    }
}

/// A provider has taken the mail for at least one recipient.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmailSent {
    /// Ours: the mail.
    pub email_id: Uuid,
    /// The loan that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan_id: Option<String>,
    /// The user who requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The provider's id of the mail, of its first accepted recipient.
    pub provider_message_id: String,
    /// The artifact with the exact bytes.
    pub artifact_id: Uuid,
    /// The request that it belongs to.
    pub correlation_id: String,
    /// The time from the request to the provider's acceptance.
    pub duration_ms: u64,
}

/// An attempt to send the mail failed, or it cannot be sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmailFailed {
    /// Ours: the mail.
    pub email_id: Uuid,
    /// The loan that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan_id: Option<String>,
    /// The user who requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Why: `refused`, `deferred`, `unknown`, `rendering`, `expired` or `invalid`.
    pub error_code: String,
    /// The error, without personal data.
    pub error_message: String,
    /// The request that it belongs to.
    pub correlation_id: String,
    /// How often it was tried.
    pub attempt_count: u32,
    /// Ours: the number of the failed attempt makes the message unique; it is not part of the payload.
    #[serde(skip)]
    pub handover_id: Uuid,
}

/// Every recipient of the mail was suppressed when it was about to be sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmailSuppressed {
    /// The mail.
    pub email_id: Uuid,
    /// The loan that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan_id: Option<String>,
    /// Why the first recipient was suppressed.
    pub reason: String,
    /// The request that it belongs to.
    pub correlation_id: String,
}

/// A tick of the sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CrmSweepTick {
    /// The time that the tick was due.
    pub scheduled_for: Timestamp,
}

/// Implements [`Event`] for an event about a mail, whose routing key is its type.
macro_rules! mail_event {
    ($event:ty, $type:literal, $idempotency_key:expr) => {
        impl Event for $event {
            const TYPE: &'static str = $type;
            const EXCHANGE: &'static str = NOTIFICATIONS;

            fn routing_key(&self, _: &TenantId) -> String {
                Self::TYPE.to_owned()
            }

            fn idempotency_key(&self) -> Option<String> {
                let idempotency_key: fn(&$event) -> String = $idempotency_key;
                Some(format!("{}:{}", Self::TYPE, idempotency_key(self)))
            }

            fn aggregate(&self) -> Option<(String, String)> {
                Some(email(self.email_id))
            }
        }
    };
}

mail_event!(EmailSent, "crm.email.sent.v1", |event| event.email_id.to_string());
mail_event!(EmailFailed, "crm.email.failed.v1", |event| format!("{}:{}", event.email_id, event.handover_id));
mail_event!(EmailSuppressed, "crm.email.suppressed.v1", |event| event.email_id.to_string());

impl Event for CrmSweepTick {
    const TYPE: &'static str = "crm.sweep.v1";
    const EXCHANGE: &'static str = NOTIFICATIONS;

    fn routing_key(&self, _: &TenantId) -> String {
        crate::topology::SWEEP_KEY.to_owned()
    }
}

fn email(id: Uuid) -> (String, String) {
    ("email".to_owned(), id.to_string())
}
