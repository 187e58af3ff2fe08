//! One entry: what was done to what, by whom, with the values before and after.

use crate::AuditError;
use jiff::Timestamp;
use onceward_db::{Scope, Tx};
use onceward_envelope::{canonical, fingerprint_hex, nul};
use serde_json::{Map, Value, json};

/// The layout of documents; see the crate's own page.
pub(crate) const VERSION: u32 = 1;
/// Names and ids are looked up by an index, which has a limit.
const NAME_MAX: usize = 255;
/// The largest document.
pub(crate) const ENTRY_MAX_BYTES: usize = 1 << 20;

/// Something that was done. Who did it, for which tenant and in which request is known to the transaction.
///
/// Values are JSON. Money and other whole numbers that may pass 2^53 must be strings in it.
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
    /// `event_type` was done, such as `loan_created` or `CRM.EMAIL.SENT`.
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

    /// To this object.
    pub fn object(mut self, kind: impl Into<String>, id: impl ToString) -> Self {
        self.object = Some((kind.into(), id.to_string()));
        self
    }

    /// Which belongs to this loan.
    pub fn loan(mut self, id: impl ToString) -> Self {
        self.loan_id = Some(id.to_string());
        self
    }

    /// The value before.
    pub fn old(mut self, value: impl Into<Value>) -> Self {
        self.old_value = Some(value.into());
        self
    }

    /// The value after.
    pub fn new_value(mut self, value: impl Into<Value>) -> Self {
        self.new_value = Some(value.into());
        self
    }

    /// Whatever else should be known.
    pub fn payload(mut self, payload: impl Into<Value>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// The SHA-256 of content that is kept elsewhere, or that must not be kept here.
    pub fn payload_hash(mut self, content: impl AsRef<[u8]>) -> Self {
        self.payload_hash = Some(fingerprint_hex(content));
        self
    }

    /// When it happened, if not now; to the microsecond.
    pub fn occurred_at(mut self, at: Timestamp) -> Self {
        self.occurred_at = Timestamp::from_microsecond(at.as_microsecond()).ok();
        self
    }

    /// The canonical document. `now` is when it happened unless the entry says otherwise.
    pub(crate) fn document(self, tx: &Tx, now: Timestamp) -> Result<String, AuditError> {
        let tenant = tx.tenant().map_err(AuditError::NoTenant)?.as_str();
        self.check_names()?;
        let Scope { actor, correlation_id, .. } = tx.scope();
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
