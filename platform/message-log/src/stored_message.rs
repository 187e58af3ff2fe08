//! Stored messages: as columns in the log, and as JSON once deferred.

use crate::{
    append::{has_nul, stored_headers},
    turn_message::RowContext,
    turn_rows::column,
};
use jiff::Timestamp;
use onceward_broker::{Delivery, wire::ParcelContents};
use onceward_db::Row;
use onceward_envelope::{
    Actor, CorrelationId, ENVELOPE_SCHEMA_VERSION, Envelope, EnvelopeParts, EventType, IdText, IdempotencyKey, Payload,
    TenantId, TraceContext,
};
use postgres_types::{FromSql, Type};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use std::{borrow::Cow, error::Error};
use uuid::Uuid;

/// A message's columns, borrowed from its row, and its parsed headers.
pub(crate) struct StoredMessage<'r> {
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

/// The parts of the envelope that have no column. Services in other languages write them too, so none of them is
/// guaranteed.
#[derive(Default, Deserialize)]
struct StoredHeaders<'r> {
    #[serde(borrow)]
    actor: Option<&'r RawValue>,
    #[serde(borrow)]
    traceparent: Option<&'r RawValue>,
    #[serde(borrow)]
    tracestate: Option<&'r RawValue>,
    #[serde(borrow)]
    extensions: Option<&'r RawValue>,
}

impl<'r> StoredHeaders<'r> {
    /// A deferred message stores "no headers" as JSON's null.
    fn read(text: Option<JsonText<'r>>) -> Result<Self, String> {
        let Some(JsonText(text)) = text else {
            return Ok(Self::default());
        };
        let headers: Option<Self> = serde_json::from_str(text).map_err(|error| format!("headers: {error}"))?;
        Ok(headers.unwrap_or_default())
    }
}

impl StoredHeaders<'_> {
    fn trace(&self) -> Option<TraceContext> {
        let trace = TraceContext::parse(&parse_part::<Cow<'_, str>>(self.traceparent)?)?;
        Some(trace.with_state(parse_part::<Cow<'_, str>>(self.tracestate).as_deref()))
    }
}

fn parse_part<'r, T: Deserialize<'r>>(raw: Option<&'r RawValue>) -> Option<T> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// The text of a `json` column, left unparsed.
struct JsonText<'a>(&'a str);

impl<'a> FromSql<'a> for JsonText<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSON
    }
}

impl<'r> StoredMessage<'r> {
    /// Reads the columns. Fails if they cannot form a message.
    pub(crate) fn read(row: &'r Row, context: &'r RowContext) -> Result<Self, String> {
        let published_at: Timestamp = get(row, column::CREATED_AT)?;
        let event_id: Uuid = get(row, column::ID)?;
        if let Some(tenant_id) = context.foreign_tenant() {
            TenantId::check(tenant_id).map_err(|error| error.to_string())?;
        }
        let name: &str = get(row, column::EVENT_TYPE)?;
        let version = u16::try_from(version(row)?).map_err(|_| "its version is negative".to_owned())?;
        EventType::check(name, version).map_err(|error| error.to_string())?;
        let correlation_id = match get(row, column::CORRELATION_UUID)? {
            Some(uuid) => IdText::Uuid(uuid),
            None => {
                let text: &str = get::<Option<_>>(row, column::CORRELATION_ID)?.unwrap_or_default();
                CorrelationId::check(text).map_err(|error| error.to_string())?;
                IdText::Text(text)
            }
        };
        let idempotency_key = match get(row, column::IDEMPOTENCY_KEY)? {
            Some(text) => {
                IdempotencyKey::check(text).map_err(|error| error.to_string())?;
                IdText::Text(text)
            }
            None => IdText::Uuid(event_id),
        };
        let headers = StoredHeaders::read(get(row, column::HEADERS)?)?;
        let JsonText(payload) = get(row, column::PAYLOAD)?;
        Ok(Self {
            published_at,
            event_id,
            name,
            version,
            topic: get(row, column::TOPIC)?,
            occurred_at: get::<Option<_>>(row, column::OCCURRED_AT)?.unwrap_or(published_at),
            tenant_id: context.tenant_id(),
            ordering_key: get(row, column::ORDERING_KEY)?,
            idempotency_key,
            correlation_id,
            causation_id: get(row, column::CAUSATION_ID)?,
            actor: parse_part(headers.actor),
            trace: Some(headers.trace().unwrap_or_else(|| TraceContext::of_story(correlation_id, event_id))),
            extensions: parse_part(headers.extensions).unwrap_or_default(),
            payload,
        })
    }

    /// Returns the contents of a parcel.
    pub(crate) fn parcel_contents(&self, priority: u8) -> ParcelContents<'_> {
        ParcelContents {
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

    /// Builds the message for its handler.
    pub(crate) fn into_delivery(self, context: &RowContext) -> Result<Delivery, String> {
        let tenant_id = match context.foreign_tenant() {
            Some(tenant_id) => TenantId::new(tenant_id).map_err(|error| error.to_string())?,
            None => context.lane.tenant.clone(),
        };
        let correlation_id = match self.correlation_id {
            IdText::Uuid(uuid) => uuid.into(),
            IdText::Text(text) => CorrelationId::new(text).map_err(|error| error.to_string())?,
        };
        let idempotency_key = match self.idempotency_key {
            IdText::Uuid(uuid) => uuid.into(),
            IdText::Text(text) => IdempotencyKey::new(text).map_err(|error| error.to_string())?,
        };
        let delivery = Delivery {
            queue_tenant: context.lane.tenant.clone(),
            priority: context.lane.message_priority(),
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
            attempt: context.attempt,
            published_at: self.published_at,
            first_error: context.first_error().map(str::to_owned),
            first_failed_at: context.first_failed_at(),
            unknown_since: context.unknown_since(),
        };
        // It could be handled, but not stored again if that fails.
        if has_nul(&delivery.envelope) {
            return Err("it contains the character NUL".to_owned());
        }
        Ok(delivery)
    }

    /// Returns the columns of an unreadable message, as far as each can be read. JSON is kept as text, because it may
    /// be the part that cannot be parsed.
    pub(crate) fn raw_columns(row: &Row, context: &RowContext) -> Value {
        let json = |column: usize| get::<Option<JsonText<'_>>>(row, column).ok().flatten().map(|JsonText(text)| text);
        let text = |column: usize| get::<Option<&str>>(row, column).ok().flatten();
        let correlation = get::<Option<Uuid>>(row, column::CORRELATION_UUID).ok().flatten();
        json!({
            "id": get::<Uuid>(row, column::ID).unwrap_or_default(),
            "tenant_id": context.tenant_id(),
            "event_type": text(column::EVENT_TYPE).unwrap_or_default(),
            "version": version(row).unwrap_or_default(),
            "topic": text(column::TOPIC).unwrap_or_default(),
            "ordering_key": text(column::ORDERING_KEY),
            "idempotency_key": text(column::IDEMPOTENCY_KEY),
            "correlation_id": correlation.map(|uuid| uuid.to_string()).as_deref().or(text(column::CORRELATION_ID)).unwrap_or_default(),
            "causation_id": text(column::CAUSATION_ID),
            "headers": json(column::HEADERS),
            "payload": json(column::PAYLOAD),
        })
    }
}

/// Version 1, which nearly every message has, is not sent.
fn version(row: &Row) -> Result<i16, String> {
    Ok(get::<Option<_>>(row, column::VERSION)?.unwrap_or(1))
}

/// Returns a column's value. Not every value in the database can be read: a time may be infinite, for example.
fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, String> {
    row.try_get(column).map_err(|_| format!("its {} cannot be read", column::NAMES[column].to_lowercase()))
}

/// Returns the message as `onceward.deferred` and `onceward.dead_letters` store it.
pub(crate) fn to_json(delivery: &Delivery) -> Value {
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
