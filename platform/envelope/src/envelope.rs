//! The envelope and its one JSON form.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer, ser::Error as _, ser::SerializeMap};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    CorrelationId, EnvelopeError, EnvelopeParts, EventType, IdText, IdempotencyKey, Payload, TenantId, TraceContext,
    headers::Headers, parts::check_extensions,
};

/// The version of the envelope format, in `schemaVersion`.
pub const ENVELOPE_SCHEMA_VERSION: u16 = 1;

/// The top-level names of the envelope's own fields; an extension must not use one of them.
pub const FIELD_NAMES: [&str; 11] = [
    "eventId",
    "type",
    "version",
    "schemaVersion",
    "tenantId",
    "correlationId",
    "causationId",
    "idempotencyKey",
    "actor",
    "occurredAt",
    "payload",
];

/// The person or service that caused an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// The person, as named by the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The service that acted, alone or on behalf of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// One message: a fact with everything needed to route, deduplicate, check and trace it.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// A version 7 UUID: unique, and sorts by time.
    pub event_id: Uuid,
    /// The type of the event; `type` and `version` in JSON.
    pub event_type: EventType,
    /// The version of the envelope format: [`ENVELOPE_SCHEMA_VERSION`].
    pub schema_version: u16,
    /// The tenant that owns the data.
    pub tenant_id: TenantId,
    /// The id that links it to the request that started the story.
    pub correlation_id: CorrelationId,
    /// The event or command that directly caused this one.
    pub causation_id: Option<String>,
    /// The key for deduplication: a consumer applies one effect per tenant and key.
    pub idempotency_key: IdempotencyKey,
    /// The person or service that caused it.
    pub actor: Option<Actor>,
    /// When it happened, which is not when it was sent.
    pub occurred_at: Timestamp,
    /// Further top-level attributes (`surveyId`, `sessionId`); none may be in [`FIELD_NAMES`].
    pub extensions: Map<String, Value>,
    /// The fact itself, which satisfies the schema named by `event_type`.
    pub payload: Payload,
    /// Trace context. It is sent in headers and is not part of the JSON.
    pub trace: Option<TraceContext>,
}

impl Envelope {
    /// Returns its parts, borrowed.
    pub fn parts(&self) -> EnvelopeParts<'_> {
        EnvelopeParts {
            event_id: self.event_id,
            name: self.event_type.name(),
            version: self.event_type.version(),
            schema_version: self.schema_version,
            tenant_id: self.tenant_id.as_str(),
            correlation_id: IdText::Text(self.correlation_id.as_str()),
            causation_id: self.causation_id.as_deref(),
            idempotency_key: IdText::Text(self.idempotency_key.as_str()),
            actor: self.actor.as_ref(),
            occurred_at: self.occurred_at,
            extensions: Some(&self.extensions),
            payload: self.payload.text(),
            trace: self.trace.as_ref(),
        }
    }

    /// Returns the headers that are sent with the body.
    pub fn headers(&self) -> Headers {
        self.parts().headers()
    }

    /// Returns the body as sent on every bus. Fails if an extension has the name of a field.
    pub fn to_json_bytes(&self) -> Result<Vec<u8>, EnvelopeError> {
        self.parts().to_json_bytes()
    }

    /// Returns the body as a JSON value. Fails if an extension has the name of a field.
    pub fn to_value(&self) -> Result<Value, EnvelopeError> {
        check_extensions(Some(&self.extensions))?;
        serde_json::to_value(self).map_err(EnvelopeError::unwritable)
    }
}

impl Serialize for Envelope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        check_extensions(Some(&self.extensions)).map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("eventId", &self.event_id)?;
        map.serialize_entry("type", self.event_type.name())?;
        map.serialize_entry("version", &self.event_type.version())?;
        map.serialize_entry("schemaVersion", &self.schema_version)?;
        map.serialize_entry("tenantId", &self.tenant_id)?;
        map.serialize_entry("correlationId", &self.correlation_id)?;
        if let Some(causation_id) = &self.causation_id {
            map.serialize_entry("causationId", causation_id)?;
        }
        map.serialize_entry("idempotencyKey", &self.idempotency_key)?;
        if let Some(actor) = &self.actor {
            map.serialize_entry("actor", actor)?;
        }
        map.serialize_entry("occurredAt", &self.occurred_at)?;
        for (name, value) in &self.extensions {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("payload", &self.payload)?;
        map.end()
    }
}
