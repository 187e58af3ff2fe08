//! An envelope's parts, borrowed from wherever they are stored, and their JSON text.
//!
//! Code that only forwards a message has its parts as columns of a row; building an [`Envelope`](crate::Envelope) from
//! them first would cost more than all other steps of forwarding it.

use crate::{
    Actor, EnvelopeError, FIELD_NAMES, TraceContext,
    headers::{self, Headers},
};
use jiff::{Timestamp, fmt::temporal::DateTimePrinter};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use uuid::Uuid;

/// The capacity for everything that usually surrounds a payload.
const AROUND_PAYLOAD: usize = 512;

static TIMES: DateTimePrinter = DateTimePrinter::new();

/// An identifier that is often a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdText<'a> {
    /// The UUID's usual text.
    Uuid(Uuid),
    /// Any other text.
    Text(&'a str),
}

impl IdText<'_> {
    fn append_to(self, text: &mut String) {
        match self {
            Self::Uuid(uuid) => text.push_str(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer())),
            Self::Text(own) => text.push_str(own),
        }
    }
}

/// The parts of an envelope. They have the meaning of the fields of [`Envelope`](crate::Envelope).
#[derive(Debug, Clone)]
pub struct EnvelopeParts<'a> {
    /// The event's id.
    pub event_id: Uuid,
    /// The name without the version.
    pub name: &'a str,
    /// The version of the payload's contract.
    pub version: u16,
    /// The version of the envelope format.
    pub schema_version: u16,
    /// The tenant that owns the data.
    pub tenant_id: &'a str,
    /// The story it belongs to.
    pub correlation_id: IdText<'a>,
    /// The event or command that directly caused it.
    pub causation_id: Option<&'a str>,
    /// The key for deduplication.
    pub idempotency_key: IdText<'a>,
    /// The person or service that caused it.
    pub actor: Option<&'a Actor>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Further top-level attributes.
    pub extensions: Option<&'a Map<String, Value>>,
    /// The fact itself: JSON, which is not parsed.
    pub payload: Cow<'a, str>,
    /// Trace context.
    pub trace: Option<&'a TraceContext>,
}

impl EnvelopeParts<'_> {
    /// Returns the headers that are sent with the body.
    pub fn headers(&self) -> Headers {
        let mut all = Headers::with_typical_capacity();
        all.write(headers::MESSAGE_ID, |text| IdText::Uuid(self.event_id).append_to(text));
        all.write(headers::CORRELATION_ID, |text| self.correlation_id.append_to(text));
        all.write(headers::SCHEMA, |text| append_schema(self.name, self.version, text));
        if let Some(trace) = self.trace {
            all.push(headers::TRACE_ID, trace.trace_id());
            all.push(headers::TRACEPARENT, trace.traceparent());
            if let Some(state) = trace.tracestate() {
                all.push(headers::TRACESTATE, state);
            }
        }
        all
    }

    /// Returns the body as sent on every bus. Fails if an extension has the name of a field.
    pub fn to_json_bytes(&self) -> Result<Vec<u8>, EnvelopeError> {
        let mut bytes = Vec::with_capacity(AROUND_PAYLOAD + self.payload.len());
        self.write_json(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes the body into an existing buffer, replacing its content. Fails if an extension has the name of a field.
    pub fn write_json(&self, bytes: &mut Vec<u8>) -> Result<(), EnvelopeError> {
        check_extensions(self.extensions)?;
        bytes.clear();
        let mut object = Object(bytes);
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
        object.time("occurredAt", &self.occurred_at);
        for (name, value) in self.extensions.into_iter().flatten() {
            object.extension(name, value)?;
        }
        object.name("payload");
        object.0.extend_from_slice(self.payload.as_bytes());
        object.0.push(b'}');
        Ok(())
    }
}

/// Fails if an extension has the name of a field.
pub(crate) fn check_extensions(extensions: Option<&Map<String, Value>>) -> Result<(), EnvelopeError> {
    let is_reserved = |name: &&String| FIELD_NAMES.contains(&name.as_str());
    match extensions.and_then(|extensions| extensions.keys().find(is_reserved)) {
        Some(name) => Err(EnvelopeError::ReservedExtension { name: name.clone() }),
        None => Ok(()),
    }
}

/// Appends a time in the format of messages, RFC 3339.
pub fn append_time(time: &Timestamp, text: &mut String) {
    TIMES.print_timestamp(time, text).expect("writing to memory does not fail");
}

/// Appends the schema's `$id`, such as `payment.posted.v1`.
fn append_schema(name: &str, version: u16, text: &mut String) {
    text.push_str(name);
    text.push_str(".v");
    match u8::try_from(version) {
        Ok(digit @ 0..10) => text.push(char::from(b'0' + digit)),
        _ => text.push_str(&version.to_string()),
    }
}

/// A JSON object being written as bytes.
struct Object<'a>(&'a mut Vec<u8>);

impl Object<'_> {
    /// Appends one of our own names, which need no escaping.
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

    fn time(&mut self, name: &str, time: &Timestamp) {
        self.name(name);
        self.0.push(b'"');
        TIMES.print_timestamp(time, &mut *self.0).expect("writing to memory does not fail");
        self.0.push(b'"');
    }

    fn extension(&mut self, name: &str, value: &Value) -> Result<(), EnvelopeError> {
        self.0.push(b',');
        self.write(name)?;
        self.0.push(b':');
        self.write(value)
    }

    fn write<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EnvelopeError> {
        serde_json::to_writer(&mut *self.0, value).map_err(EnvelopeError::unwritable)
    }
}
