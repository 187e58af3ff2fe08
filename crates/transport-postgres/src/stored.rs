//! A message as the log keeps it, column by column, and as messages put aside keep it, in JSON.

use crate::{
    append::stored_headers,
    rows::{Origin, column},
};
use jiff::Timestamp;
use onceward_db::Row;
use onceward_envelope::{
    Actor, CorrelationId, ENVELOPE_SCHEMA_VERSION, Envelope, EnvelopeParts, EventType, IdText, IdempotencyKey, Payload,
    TenantId, TraceContext,
};
use onceward_transport::{Delivery, wire::Contents};
use postgres_types::{FromSql, Type};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use std::{borrow::Cow, error::Error};
use uuid::Uuid;

/// A message's columns, borrowed from its row, and what its headers hold.
pub(crate) struct Stored<'r> {
    pub published_at: Timestamp,
    pub event_id: Uuid,
    pub name: &'r str,
    pub version: u16,
    pub topic: &'r str,
    occurred_at: Timestamp,
    tenant_id: &'r str,
    ordering_key: Option<&'r str>,
    idempotency_key: IdText<'r>,
    correlation_id: IdText<'r>,
    causation_id: Option<&'r str>,
    actor: Option<Actor>,
    trace: Option<TraceContext>,
    extensions: Map<String, Value>,
    payload: &'r str,
}

/// What of the envelope has no column. Services in other languages write it too, so none of it is certain.
#[derive(Default, Deserialize)]
struct Headers<'r> {
    #[serde(borrow)]
    actor: Option<&'r RawValue>,
    #[serde(borrow)]
    traceparent: Option<&'r RawValue>,
    #[serde(borrow)]
    extensions: Option<&'r RawValue>,
}

impl<'r> Headers<'r> {
    /// A message put aside keeps "no headers" as JSON's null.
    fn read(text: Option<JsonText<'r>>) -> Result<Self, String> {
        let Some(JsonText(text)) = text else {
            return Ok(Self::default());
        };
        let headers: Option<Self> = serde_json::from_str(text).map_err(|error| format!("headers: {error}"))?;
        Ok(headers.unwrap_or_default())
    }
}

fn part<'r, T: Deserialize<'r>>(raw: Option<&'r RawValue>) -> Option<T> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// The text of a column of the type `json`, which is not read.
struct JsonText<'a>(&'a str);

impl<'a> FromSql<'a> for JsonText<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSON
    }
}

impl<'r> Stored<'r> {
    /// Reads the columns. What nobody could make a message of is an error.
    pub(crate) fn read(row: &'r Row, origin: &'r Origin) -> Result<Self, String> {
        let published_at: Timestamp = row.get(column::CREATED_AT);
        let event_id: Uuid = row.get(column::ID);
        if let Some(tenant_id) = origin.foreign_tenant() {
            TenantId::check(tenant_id).map_err(|error| error.to_string())?;
        }
        let name: &str = row.get(column::EVENT_TYPE);
        let version = version(row).unsigned_abs();
        EventType::check(name, version).map_err(|error| error.to_string())?;
        let correlation_id = match row.get(column::CORRELATION_UUID) {
            Some(uuid) => IdText::Uuid(uuid),
            None => {
                let text: &str = row.get::<_, Option<_>>(column::CORRELATION_ID).unwrap_or_default();
                CorrelationId::check(text).map_err(|error| error.to_string())?;
                IdText::Text(text)
            }
        };
        let idempotency_key = match row.get(column::IDEMPOTENCY_KEY) {
            Some(text) => {
                IdempotencyKey::check(text).map_err(|error| error.to_string())?;
                IdText::Text(text)
            }
            None => IdText::Uuid(event_id),
        };
        let headers = Headers::read(row.get(column::HEADERS))?;
        let JsonText(payload) = row.get(column::PAYLOAD);
        Ok(Self {
            published_at,
            event_id,
            name,
            version,
            topic: row.get(column::TOPIC),
            occurred_at: row.get::<_, Option<_>>(column::OCCURRED_AT).unwrap_or(published_at),
            tenant_id: origin.tenant_id(),
            ordering_key: row.get(column::ORDERING_KEY),
            idempotency_key,
            correlation_id,
            causation_id: row.get(column::CAUSATION_ID),
            actor: part(headers.actor),
            trace: part::<Cow<'_, str>>(headers.traceparent).and_then(|text| TraceContext::parse(&text)),
            extensions: part(headers.extensions).unwrap_or_default(),
            payload,
        })
    }

    /// What goes into a parcel.
    pub(crate) fn contents(&self, priority: u8) -> Contents<'_> {
        Contents {
            envelope: EnvelopeParts {
                event_id: self.event_id,
                name: self.name,
                version: self.version,
                schema_version: ENVELOPE_SCHEMA_VERSION,
                tenant_id: self.tenant_id,
                correlation_id: self.correlation_id,
                causation_id: self.causation_id,
                idempotency_key: self.idempotency_key,
                actor: self.actor.as_ref(),
                occurred_at: self.occurred_at,
                extensions: Some(&self.extensions),
                payload: self.payload.into(),
                trace: self.trace.as_ref(),
            },
            ordering_key: self.ordering_key,
            priority,
            published_at: self.published_at,
        }
    }

    /// The message, for who handles it.
    pub(crate) fn delivery(self, origin: &Origin) -> Result<Delivery, String> {
        let tenant_id = match origin.foreign_tenant() {
            Some(tenant_id) => TenantId::new(tenant_id).map_err(|error| error.to_string())?,
            None => origin.lane.tenant.clone(),
        };
        let correlation_id = match self.correlation_id {
            IdText::Uuid(uuid) => uuid.into(),
            IdText::Text(text) => CorrelationId::new(text).map_err(|error| error.to_string())?,
        };
        let idempotency_key = match self.idempotency_key {
            IdText::Uuid(uuid) => uuid.into(),
            IdText::Text(text) => IdempotencyKey::new(text).map_err(|error| error.to_string())?,
        };
        Ok(Delivery {
            queue_tenant: origin.lane.tenant.clone(),
            priority: origin.lane.message_priority(),
            envelope: Envelope {
                event_id: self.event_id,
                event_type: EventType::new(self.name, self.version).map_err(|error| error.to_string())?,
                schema_version: ENVELOPE_SCHEMA_VERSION,
                tenant_id,
                correlation_id,
                causation_id: self.causation_id.map(str::to_owned),
                idempotency_key,
                actor: self.actor,
                occurred_at: self.occurred_at,
                extensions: self.extensions,
                payload: Payload::from_text(self.payload).map_err(|error| format!("payload: {error}"))?,
                trace: self.trace,
            },
            topic: self.topic.to_owned(),
            ordering_key: self.ordering_key.map(str::to_owned),
            attempt: origin.attempt,
            published_at: self.published_at,
            first_error: origin.first_error().map(str::to_owned),
            first_failed_at: origin.first_failed_at(),
        })
    }

    /// The columns of a message that could not be read.
    pub(crate) fn raw(row: &Row, origin: &Origin) -> Value {
        let json = |column: usize| row.get::<_, Option<JsonText<'_>>>(column).map(|JsonText(text)| text);
        let correlation = row.get::<_, Option<Uuid>>(column::CORRELATION_UUID).map(|uuid| uuid.to_string());
        json!({
            "id": row.get::<_, Uuid>(column::ID),
            "tenant_id": origin.tenant_id(),
            "event_type": row.get::<_, &str>(column::EVENT_TYPE),
            "version": version(row),
            "topic": row.get::<_, &str>(column::TOPIC),
            "ordering_key": row.get::<_, Option<&str>>(column::ORDERING_KEY),
            "idempotency_key": row.get::<_, Option<&str>>(column::IDEMPOTENCY_KEY),
            "correlation_id": correlation.or_else(|| row.get(column::CORRELATION_ID)),
            "causation_id": row.get::<_, Option<&str>>(column::CAUSATION_ID),
            "headers": json(column::HEADERS),
            "payload": json(column::PAYLOAD),
        })
    }
}

/// The first version, which nearly every message has, is not sent.
fn version(row: &Row) -> i16 {
    row.get::<_, Option<_>>(column::VERSION).unwrap_or(1)
}

/// The message as `onceward.deferred` and `onceward.dead_letters` keep it.
pub(crate) fn stored(delivery: &Delivery) -> Value {
    let envelope = &delivery.envelope;
    json!({
        "id": envelope.event_id,
        "event_type": envelope.event_type.name(),
        "version": envelope.event_type.version(),
        "topic": delivery.topic,
        "idempotency_key": envelope.idempotency_key,
        "correlation_id": envelope.correlation_id,
        "causation_id": envelope.causation_id,
        "headers": stored_headers(envelope),
        "payload": envelope.payload,
        "occurred_at": envelope.occurred_at,
    })
}
