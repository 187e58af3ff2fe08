//! The envelope and its one JSON form.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer, ser::Error as _, ser::SerializeMap};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    CorrelationId, EnvelopeError, EnvelopeParts, EventType, IdText, IdempotencyKey, Payload, TenantId, TraceContext,
    headers::Headers, parts::check_extensions,
};

/// The version of the envelope's own form, in `schemaVersion`.
pub const ENVELOPE_SCHEMA_VERSION: u16 = 1;

/// The top-level names that belong to the envelope; an extension may not take one of them.
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

/// Who or what caused an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// The person, as the token names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The service that acted, alone or for the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// One message: a fact with all that is needed to route, deduplicate, check and trace it.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Version 7 UUID: unique, and sorts by time.
    pub event_id: Uuid,
    /// What happened; `type` and `version` in JSON.
    pub event_type: EventType,
    /// The form of this envelope: [`ENVELOPE_SCHEMA_VERSION`].
    pub schema_version: u16,
    /// Whose data it is.
    pub tenant_id: TenantId,
    /// Ties it to the request that began it all.
    pub correlation_id: CorrelationId,
    /// The event or command that directly caused this one.
    pub causation_id: Option<String>,
    /// A consumer applies one effect per tenant and key.
    pub idempotency_key: IdempotencyKey,
    /// Who or what caused it.
    pub actor: Option<Actor>,
    /// When it happened, which is not when it was sent.
    pub occurred_at: Timestamp,
    /// Further top-level attributes (`surveyId`, `sessionId`); none may be in [`FIELD_NAMES`].
    pub extensions: Map<String, Value>,
    /// The fact itself, which obeys the schema named by `event_type`.
    pub payload: Payload,
    /// Trace context. It travels in headers and is not part of the JSON.
    pub trace: Option<TraceContext>,
}

impl Envelope {
    /// Its parts, borrowed.
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

    /// The headers that travel beside the body.
    pub fn headers(&self) -> Headers {
        self.parts().headers()
    }

    /// The body as every bus carries it.
    pub fn to_json_bytes(&self) -> Result<Vec<u8>, EnvelopeError> {
        self.parts().to_json_bytes()
    }

    /// The body as a JSON value.
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
