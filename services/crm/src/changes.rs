//! Records what happened: one audit entry, and a line in the timeline of the contact that it concerns, in one commit.
//!
//! The timeline repeats the audit chain for one contact, so it can be rebuilt from the chain. Neither contains addresses,
//! subjects, bodies or names: personal values are hashed under the tenant's key.

use crate::{
    CrmError,
    timeline::{self, TimelineLine},
};
use jiff::Timestamp;
use onceward::{Tx, audit};
use onceward_audit::Entry;
use serde_json::{Value, json};
use uuid::Uuid;

/// Something that happened to a contact, a template or a mail.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub event_type: &'static str,
    pub object_type: &'static str,
    pub object_id: String,
    pub contact_id: Option<Uuid>,
    pub email_id: Option<Uuid>,
    pub loan_id: Option<String>,
    pub old_value: Option<Value>,
    pub new_value: Option<Value>,
    /// Further information, which the timeline shows.
    pub detail: Value,
}

impl Change {
    /// Creates a change of an object: `CRM.CONTACT.UPDATED` of a `contact`.
    pub(crate) fn new(event_type: &'static str, object_type: &'static str, object_id: impl ToString) -> Self {
        Self {
            event_type,
            object_type,
            object_id: object_id.to_string(),
            contact_id: None,
            email_id: None,
            loan_id: None,
            old_value: None,
            new_value: None,
            detail: json!({}),
        }
    }

    /// Sets the contact in whose timeline it appears.
    pub(crate) fn contact(mut self, contact_id: impl Into<Option<Uuid>>) -> Self {
        self.contact_id = contact_id.into();
        self
    }

    /// Sets the mail that it concerns.
    pub(crate) fn email(mut self, email_id: Uuid) -> Self {
        self.email_id = Some(email_id);
        self
    }

    /// Sets the loan that it belongs to.
    pub(crate) fn loan(mut self, loan_id: Option<&str>) -> Self {
        self.loan_id = loan_id.map(str::to_owned);
        self
    }

    /// Sets the value before. Personal values are hashed first.
    pub(crate) fn old(mut self, value: Value) -> Self {
        self.old_value = Some(value);
        self
    }

    /// Sets the value after. Personal values are hashed first.
    pub(crate) fn new_value(mut self, value: Value) -> Self {
        self.new_value = Some(value);
        self
    }

    /// Sets further information. It contains nothing personal.
    pub(crate) fn detail(mut self, detail: Value) -> Self {
        self.detail = detail;
        self
    }
}

/// Returns who acts in this transaction: the person if there is one, otherwise the service.
pub(crate) fn actor(tx: &Tx) -> Option<String> {
    let actor = &tx.scope().actor;
    actor.user_id.clone().or_else(|| actor.service.clone())
}

/// Writes the audit entry and the line of the timeline. Both are committed with `tx`, or not at all.
pub(crate) async fn record(tx: &mut Tx, change: Change) -> Result<(), CrmError> {
    // The chain stores microseconds: the timeline's time must be the same one.
    let now = Timestamp::now();
    let (entry_id, occurred_at) = (Uuid::now_v7(), Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now));
    let payload = json!({
        "entryId": entry_id,
        "contactId": change.contact_id,
        "emailId": change.email_id,
        "detail": change.detail,
    });
    let mut entry = Entry::new(change.event_type)
        .object(change.object_type, &change.object_id)
        .occurred_at(occurred_at)
        .payload(payload);
    if let Some(loan_id) = &change.loan_id {
        entry = entry.loan(loan_id);
    }
    if let Some(value) = change.old_value {
        entry = entry.old(value);
    }
    if let Some(value) = change.new_value {
        entry = entry.new_value(value);
    }
    audit::record(tx, entry)?;
    if let Some(contact_id) = change.contact_id {
        let line = TimelineLine {
            contact_id,
            entry_id,
            occurred_at,
            event_type: change.event_type.to_owned(),
            email_id: change.email_id,
            actor: actor(tx),
            detail: change.detail,
        };
        timeline::insert(tx, &line).await?;
    }
    Ok(())
}
