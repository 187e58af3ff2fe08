//! An envelope's parts, borrowed from wherever they are kept, and the one text that they are written as.
//!
//! Who only carries a message has its parts as columns of a row; making an [`Envelope`](crate::Envelope) of them first would
//! cost more than all the rest of carrying it.

use crate::{Actor, EnvelopeError, FIELD_NAMES, TraceContext, headers};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use uuid::Uuid;

/// Room for all that is usually around a payload.
const AROUND_PAYLOAD: usize = 512;

/// An identifier that is often a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdText<'a> {
    /// The UUID's usual text.
    Uuid(Uuid),
    /// Any other.
    Text(&'a str),
}

impl IdText<'_> {
    fn to_text(self) -> String {
        match self {
            Self::Uuid(uuid) => uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_owned(),
            Self::Text(text) => text.to_owned(),
        }
    }
}

/// The parts of an envelope. They mean what the fields of [`Envelope`](crate::Envelope) mean.
#[derive(Debug, Clone)]
pub struct EnvelopeParts<'a> {
    /// The event's id.
    pub event_id: Uuid,
    /// The name without the version.
    pub name: &'a str,
    /// The version of the payload's contract.
    pub version: u16,
    /// The form of the envelope.
    pub schema_version: u16,
    /// Whose data it is.
    pub tenant_id: &'a str,
    /// The story.
    pub correlation_id: IdText<'a>,
    /// What directly caused it.
    pub causation_id: Option<&'a str>,
    /// The effect's key.
    pub idempotency_key: IdText<'a>,
    /// Who or what caused it.
    pub actor: Option<&'a Actor>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Further top-level attributes.
    pub extensions: Option<&'a Map<String, Value>>,
    /// The fact itself: JSON, which is not looked into.
    pub payload: Cow<'a, str>,
    /// Trace context.
    pub trace: Option<&'a TraceContext>,
}

impl EnvelopeParts<'_> {
    /// The headers that travel beside the body.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::with_capacity(headers::MOST);
        all.push((headers::MESSAGE_ID, IdText::Uuid(self.event_id).to_text()));
        all.push((headers::CORRELATION_ID, self.correlation_id.to_text()));
        all.push((headers::SCHEMA, format!("{}.v{}", self.name, self.version)));
        if let Some(trace) = self.trace {
            all.push((headers::TRACE_ID, trace.trace_id().to_owned()));
            all.push((headers::TRACEPARENT, trace.traceparent().to_owned()));
        }
        all
    }

    /// The body as every bus carries it.
    pub fn to_json_bytes(&self) -> Result<Vec<u8>, EnvelopeError> {
        check_extensions(self.extensions)?;
        let mut object = Object(Vec::with_capacity(AROUND_PAYLOAD + self.payload.len()));
        object.id("eventId", IdText::Uuid(self.event_id))?;
        object.value("type", self.name)?;
        object.value("version", &self.version)?;
        object.value("schemaVersion", &self.schema_version)?;
        object.value("tenantId", self.tenant_id)?;
        object.id("correlationId", self.correlation_id)?;
        if let Some(causation_id) = self.causation_id {
            object.value("causationId", causation_id)?;
        }
        object.id("idempotencyKey", self.idempotency_key)?;
        if let Some(actor) = self.actor {
            object.value("actor", actor)?;
        }
        object.value("occurredAt", &self.occurred_at)?;
        for (name, value) in self.extensions.into_iter().flatten() {
            object.extension(name, value)?;
        }
        object.name("payload");
        object.0.extend_from_slice(self.payload.as_bytes());
        object.0.push(b'}');
        Ok(object.0)
    }
}

/// An extension may not take the name of a field.
pub(crate) fn check_extensions(extensions: Option<&Map<String, Value>>) -> Result<(), EnvelopeError> {
    let taken = |name: &&String| FIELD_NAMES.contains(&name.as_str());
    match extensions.and_then(|extensions| extensions.keys().find(taken)) {
        Some(name) => Err(EnvelopeError::ReservedExtension { name: name.clone() }),
        None => Ok(()),
    }
}

/// A JSON object on its way into bytes.
struct Object(Vec<u8>);

impl Object {
    /// A name of ours, in which nothing needs an escape.
    fn name(&mut self, name: &str) {
        self.0.extend_from_slice(if self.0.is_empty() { b"{\"" } else { b",\"" });
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn value<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), EnvelopeError> {
        self.name(name);
        self.write(value)
    }

    fn id(&mut self, name: &str, id: IdText<'_>) -> Result<(), EnvelopeError> {
        match id {
            IdText::Uuid(uuid) => {
                self.name(name);
                self.0.push(b'"');
                self.0.extend_from_slice(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
                self.0.push(b'"');
                Ok(())
            }
            IdText::Text(text) => self.value(name, text),
        }
    }

    fn extension(&mut self, name: &str, value: &Value) -> Result<(), EnvelopeError> {
        self.0.push(b',');
        self.write(name)?;
        self.0.push(b':');
        self.write(value)
    }

    fn write<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EnvelopeError> {
        serde_json::to_writer(&mut self.0, value).map_err(EnvelopeError::unwritable)
    }
}
