//! One entry: an action with its object, its actor, and the values before and after.

use crate::AuditError;
use jiff::Timestamp;
use onceward_db::Scope;
use onceward_envelope::{canonical, fingerprint_hex, nul};
use serde_json::{Map, Value, json};

/// The version of the documents' layout; see the crate's documentation.
pub(crate) const VERSION: u32 = 1;
/// The maximum length of names and ids: they are indexed, and an index has a limit.
const NAME_MAX: usize = 255;
/// The maximum size of a document in bytes.
pub(crate) const ENTRY_MAX_BYTES: usize = 1 << 20;

/// An action to be recorded. The actor, the tenant and the request come from the transaction.
///
/// Values are JSON. Money and other integers that may exceed 2^53 must be strings.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    event_type: String,
    object: Option<(String, String)>,
    loan_id: Option<String>,
    occurred_at: Option<Timestamp>,
    old_value: Option<Value>,
    new_value: Option<Value>,
    payload: Option<Value>,
    payload_hash: Option<String>,
}

impl Entry {
    /// Creates an entry of type `event_type`, such as `loan_created` or `CRM.EMAIL.SENT`.
    pub fn new(event_type: impl Into<String>) -> Self {
        Self {
            event_type: event_type.into(),
            object: None,
            loan_id: None,
            occurred_at: None,
            old_value: None,
            new_value: None,
            payload: None,
            payload_hash: None,
        }
    }

    /// Sets the object that was changed.
    pub fn object(mut self, kind: impl Into<String>, id: impl ToString) -> Self {
        self.object = Some((kind.into(), id.to_string()));
        self
    }

    /// Sets the loan that the object belongs to.
    pub fn loan(mut self, id: impl ToString) -> Self {
        self.loan_id = Some(id.to_string());
        self
    }

    /// Sets the value before.
    pub fn old(mut self, value: impl Into<Value>) -> Self {
        self.old_value = Some(value.into());
        self
    }

    /// Sets the value after.
    pub fn new_value(mut self, value: impl Into<Value>) -> Self {
        self.new_value = Some(value.into());
        self
    }

    /// Sets additional information.
    pub fn payload(mut self, payload: impl Into<Value>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Sets the SHA-256 of content that is stored elsewhere, or that must not be stored here.
    pub fn payload_hash(mut self, content: impl AsRef<[u8]>) -> Self {
        self.payload_hash = Some(fingerprint_hex(content));
        self
    }

    /// Sets when it happened, if not now; to the microsecond.
    pub fn occurred_at(mut self, at: Timestamp) -> Self {
        self.occurred_at = Timestamp::from_microsecond(at.as_microsecond()).ok();
        self
    }

    /// Returns the canonical document. `now` is used if the entry has no time of its own. Fails if the entry is
    /// invalid.
    pub(crate) fn document(self, scope: &Scope, now: Timestamp) -> Result<String, AuditError> {
        let Scope { tenant, actor, correlation_id, .. } = scope;
        let tenant = tenant.as_ref().ok_or(AuditError::NoTenant)?.as_str();
        self.check_names()?;
        let (object_type, object_id) = self.object.unzip();
        let fields = [
            ("v", Some(json!(VERSION))),
            ("tenantId", Some(json!(tenant))),
            ("actor", Some(json!(actor))),
            ("correlationId", Some(json!(correlation_id))),
            ("occurredAt", Some(json!(self.occurred_at.unwrap_or(now)))),
            ("eventType", Some(json!(self.event_type))),
            ("objectType", object_type.map(Value::from)),
            ("objectId", object_id.map(Value::from)),
            ("loanId", self.loan_id.map(Value::from)),
            ("oldValue", self.old_value),
            ("newValue", self.new_value),
            ("payload", self.payload),
            ("payloadHash", self.payload_hash.map(Value::from)),
        ];
        let document: Map<String, Value> =
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        let text = canonical::to_string(&Value::Object(document))?;
        if nul::in_json(&text) {
            return Err(AuditError::Nul);
        }
        match text.len() {
            bytes if bytes > ENTRY_MAX_BYTES => Err(AuditError::TooLarge { bytes, most: ENTRY_MAX_BYTES }),
            _ => Ok(text),
        }
    }

    fn check_names(&self) -> Result<(), AuditError> {
        let object = self.object.as_ref();
        let names = [
            ("the event type", Some(self.event_type.as_str())),
            ("the object's type", object.map(|(kind, _)| kind.as_str())),
            ("the object's id", object.map(|(_, id)| id.as_str())),
            ("the loan's id", self.loan_id.as_deref()),
        ];
        for (what, name) in names {
            if name.is_some_and(|name| !(1..=NAME_MAX).contains(&name.chars().count())) {
                return Err(AuditError::Length { what, most: NAME_MAX });
            }
        }
        Ok(())
    }
}
