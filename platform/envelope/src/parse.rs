//! Parsing an envelope, with errors that name the invalid field and never its value.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{Actor, ENVELOPE_SCHEMA_VERSION, Envelope, EventType, InvalidId};

/// The reason why bytes are not an envelope, or why an envelope cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The body does not parse.
    #[error("the message is not JSON: the error is at line {line}, column {column}")]
    NotJson {
        /// Line of the first error, from 1.
        line: usize,
        /// Column of the first error, from 1.
        column: usize,
    },
    /// The body is JSON, but not an object.
    #[error("the message is not a JSON object: send an envelope with a payload field")]
    NotAnObject,
    /// A required field is missing.
    #[error("the envelope has no {field}: add it")]
    Missing {
        /// The field's name in JSON.
        field: &'static str,
    },
    /// A field violates its rule.
    #[error("the envelope's {field} is not valid: {rule}")]
    Invalid {
        /// The field's name in JSON.
        field: &'static str,
        /// The rule, worded as what to send.
        rule: &'static str,
    },
    /// The envelope's format is newer than this program supports; the message can wait for a newer program.
    #[error("the envelope's schemaVersion is {found}, but this program reads up to {supported}: upgrade it")]
    NewerSchemaVersion {
        /// The version in the message.
        found: u64,
        /// The newest supported version.
        supported: u16,
    },
    /// An extension would shadow one of the envelope's own fields.
    #[error("the extension {name:?} has the name of an envelope field: rename it")]
    ReservedExtension {
        /// The extension's name.
        name: String,
    },
    /// The serializer rejected a value.
    #[error("the envelope cannot be written as JSON: {reason}")]
    Unwritable {
        /// The serializer's error.
        reason: String,
    },
}

impl EnvelopeError {
    pub(crate) fn unwritable(error: serde_json::Error) -> Self {
        Self::Unwritable { reason: error.to_string() }
    }
}

impl Envelope {
    /// Parses a body. The trace is not part of it: set [`Envelope::trace`] from the headers.
    pub fn from_json_bytes(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        // Into a value first: otherwise a parse error of an unread type would quote the input.
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| EnvelopeError::NotJson { line: error.line(), column: error.column() })?;
        Self::from_value(value)
    }

    /// Reads the envelope from a parsed body.
    pub fn from_value(value: Value) -> Result<Self, EnvelopeError> {
        let Value::Object(map) = value else {
            return Err(EnvelopeError::NotAnObject);
        };
        let mut fields = Fields(map);
        let schema_version = fields.schema_version()?;
        Ok(Self {
            event_id: fields.event_id()?,
            event_type: fields.event_type()?,
            schema_version,
            tenant_id: fields.id("tenantId")?,
            correlation_id: fields.id("correlationId")?,
            causation_id: fields.causation_id()?,
            idempotency_key: fields.id("idempotencyKey")?,
            actor: fields.actor()?,
            occurred_at: fields.occurred_at()?,
            payload: fields.take("payload")?.into(),
            // All remaining fields are extensions.
            extensions: fields.0,
            trace: None,
        })
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(value).map_err(D::Error::custom)
    }
}

/// The fields that have not been read yet.
struct Fields(Map<String, Value>);

impl Fields {
    fn take(&mut self, field: &'static str) -> Result<Value, EnvelopeError> {
        // shift_remove preserves the order of the remaining extensions.
        self.0.shift_remove(field).ok_or(EnvelopeError::Missing { field })
    }

    fn take_optional(&mut self, field: &str) -> Option<Value> {
        self.0.shift_remove(field).filter(|value| !value.is_null())
    }

    fn text(&mut self, field: &'static str) -> Result<String, EnvelopeError> {
        match self.take(field)? {
            Value::String(text) => Ok(text),
            _ => Err(EnvelopeError::Invalid { field, rule: "send a string" }),
        }
    }

    fn id<T: TryFrom<String, Error = InvalidId>>(&mut self, field: &'static str) -> Result<T, EnvelopeError> {
        let text = self.text(field)?;
        T::try_from(text).map_err(|error| EnvelopeError::Invalid { field, rule: error.rule })
    }

    fn schema_version(&mut self) -> Result<u16, EnvelopeError> {
        let field = "schemaVersion";
        match self.take(field)?.as_u64() {
            None | Some(0) => Err(EnvelopeError::Invalid { field, rule: "send a whole number from 1" }),
            Some(found) if found > u64::from(ENVELOPE_SCHEMA_VERSION) => {
                Err(EnvelopeError::NewerSchemaVersion { found, supported: ENVELOPE_SCHEMA_VERSION })
            }
            Some(_) => Ok(ENVELOPE_SCHEMA_VERSION),
        }
    }

    fn event_id(&mut self) -> Result<Uuid, EnvelopeError> {
        let field = "eventId";
        let text = self.text(field)?;
        Uuid::try_parse(&text).map_err(|_| EnvelopeError::Invalid { field, rule: "send a UUID" })
    }

    fn event_type(&mut self) -> Result<EventType, EnvelopeError> {
        let name = self.text("type")?;
        let version = self.take("version")?;
        let version = version.as_u64().and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
        let version =
            version.ok_or(EnvelopeError::Invalid { field: "version", rule: "send a whole number from 1 to 65535" })?;
        EventType::new(name, version).map_err(|error| EnvelopeError::Invalid { field: "type", rule: error.rule })
    }

    fn causation_id(&mut self) -> Result<Option<String>, EnvelopeError> {
        match self.take_optional("causationId") {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(EnvelopeError::Invalid { field: "causationId", rule: "send a string" }),
        }
    }

    fn actor(&mut self) -> Result<Option<Actor>, EnvelopeError> {
        let rule = "send an object with the strings userId and service, either or both";
        match self.take_optional("actor") {
            None => Ok(None),
            Some(value @ Value::Object(_)) => {
                serde_json::from_value(value).map(Some).map_err(|_| EnvelopeError::Invalid { field: "actor", rule })
            }
            Some(_) => Err(EnvelopeError::Invalid { field: "actor", rule }),
        }
    }

    fn occurred_at(&mut self) -> Result<Timestamp, EnvelopeError> {
        let field = "occurredAt";
        let rule = "send an RFC 3339 time, such as 2025-01-31T12:00:00Z";
        self.text(field)?.parse().map_err(|_| EnvelopeError::Invalid { field, rule })
    }
}
