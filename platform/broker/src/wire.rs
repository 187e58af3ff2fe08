//! A message as every broker carries it: the envelope as body, and headers that the platform needs to route and order
//! it.

use crate::Delivery;
use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use onceward_envelope::{
    Envelope, EnvelopeError, EnvelopeParts, TraceContext, append_time,
    headers::{self, Headers},
};
use onceward_topology::Topic;
use std::sync::Arc;
use uuid::Uuid;

/// `<exchange>:<routing key>`, for buses without these concepts.
pub const TOPIC: &str = "x-topic";
/// The ordering key.
pub const ORDERING_KEY: &str = "x-ordering-key";
/// The priority, unless it is 0.
pub const PRIORITY: &str = "x-priority";
/// The publication time, in RFC 3339.
pub const PUBLISHED_AT: &str = "x-published-at";

/// A message on its way to a broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Parcel {
    /// The event's id.
    pub id: Uuid,
    /// The destination. Many parcels share it.
    pub topic: Arc<Topic>,
    /// Messages with equal keys stay in order.
    pub ordering_key: Option<String>,
    /// 0 is the lowest.
    pub priority: u8,
    /// Headers; names are lower case and unique.
    pub headers: Headers,
    /// The envelope in JSON.
    pub body: Bytes,
    /// Whether the topology has a queue for it, so that it is an error if no queue takes it.
    pub expected: bool,
}

/// A message received from a broker. Its content is untrusted.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// Headers, including the topic, key and priority of [`Parcel`].
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// How often it was delivered before, as far as the broker reports it.
    pub redeliveries: u32,
}

impl Arrival {
    /// Returns a header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the trace that it belongs to, if a header names one.
    pub fn trace(&self) -> Option<TraceContext> {
        let trace = self.header(headers::TRACEPARENT).and_then(TraceContext::parse)?;
        Some(trace.with_state(self.header(headers::TRACESTATE)))
    }

    /// Parses the message. The error describes the defect and never quotes the message.
    pub fn unpack(&self) -> Result<Delivery, EnvelopeError> {
        let mut envelope = Envelope::from_json_bytes(&self.body)?;
        envelope.trace = self.trace();
        Ok(Delivery {
            queue_tenant: envelope.tenant_id.clone(),
            topic: self.header(TOPIC).unwrap_or_default().to_owned(),
            ordering_key: self.header(ORDERING_KEY).filter(|key| (1..=255).contains(&key.len())).map(str::to_owned),
            priority: self.header(PRIORITY).and_then(|text| text.parse().ok()).unwrap_or(0),
            attempt: 1,
            published_at: self.header(PUBLISHED_AT).and_then(|text| text.parse().ok()).unwrap_or_else(Timestamp::now),
            first_error: None,
            first_failed_at: None,
            unknown_since: None,
            envelope,
        })
    }
}

/// The contents of a parcel, borrowed from their owner.
#[derive(Clone, Debug)]
pub struct ParcelContents<'a> {
    /// The message.
    pub envelope: EnvelopeParts<'a>,
    /// Messages with equal keys stay in order.
    pub ordering_key: Option<&'a str>,
    /// 0 is the lowest.
    pub priority: u8,
    /// When it was published.
    pub published_at: Timestamp,
}

impl<'a> From<&'a Delivery> for ParcelContents<'a> {
    fn from(delivery: &'a Delivery) -> Self {
        Self {
            envelope: delivery.envelope.parts(),
            ordering_key: delivery.ordering_key.as_deref(),
            priority: delivery.priority,
            published_at: delivery.published_at,
        }
    }
}

/// Packs a message for `topic`.
pub fn pack<'a>(
    contents: impl Into<ParcelContents<'a>>,
    topic: Arc<Topic>,
    expected: bool,
) -> Result<Parcel, EnvelopeError> {
    let contents = contents.into();
    let body = contents.envelope.to_json_bytes()?.into();
    Ok(with_headers(&contents, topic, expected, body))
}

/// Bodies share memory blocks of this size; larger ones have their own.
const BLOCK_BYTES: usize = 128 << 10;
const OWN_BLOCK_BYTES: usize = BLOCK_BYTES / 8;

/// Packs many messages with few allocations.
#[derive(Default)]
pub struct Packer {
    body: Vec<u8>,
    block: BytesMut,
}

impl Packer {
    /// Packs a message for `topic`.
    pub fn pack(
        &mut self,
        contents: &ParcelContents<'_>,
        topic: Arc<Topic>,
        expected: bool,
    ) -> Result<Parcel, EnvelopeError> {
        contents.envelope.write_json(&mut self.body)?;
        let body = self.take_body();
        Ok(with_headers(contents, topic, expected, body))
    }

    fn take_body(&mut self) -> Bytes {
        if self.body.len() > OWN_BLOCK_BYTES {
            return std::mem::take(&mut self.body).into();
        }
        if self.block.capacity() < self.body.len() {
            self.block = BytesMut::with_capacity(BLOCK_BYTES);
        }
        self.block.extend_from_slice(&self.body);
        self.block.split().freeze()
    }
}

/// Creates the parcel around a body.
fn with_headers(contents: &ParcelContents<'_>, topic: Arc<Topic>, expected: bool, body: Bytes) -> Parcel {
    let ParcelContents { envelope, ordering_key, priority, published_at } = contents;
    let mut headers = envelope.headers();
    headers.write(TOPIC, |text| topic.append_to(text));
    headers.write(PUBLISHED_AT, |text| append_time(published_at, text));
    if let Some(key) = ordering_key {
        headers.push(ORDERING_KEY, key);
    }
    if *priority > 0 {
        headers.push(PRIORITY, &priority.to_string());
    }
    Parcel {
        id: envelope.event_id,
        topic,
        ordering_key: ordering_key.map(str::to_owned),
        priority: *priority,
        headers,
        body,
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_envelope::IdText;

    fn contents<'a>(payload: &'a str, key: Option<&'a str>) -> ParcelContents<'a> {
        let event_id = Uuid::from_u128(payload.len() as u128);
        let envelope = EnvelopeParts {
            event_id,
            name: "thing.happened",
            version: 12,
            schema_version: 1,
            tenant_id: "acme",
            correlation_id: IdText::Text("story"),
            causation_id: None,
            idempotency_key: IdText::Uuid(event_id),
            actor: None,
            occurred_at: Timestamp::UNIX_EPOCH,
            extensions: None,
            payload: payload.into(),
            trace: None,
        };
        ParcelContents { envelope, ordering_key: key, priority: 3, published_at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn parcels_packed_into_shared_memory_equal_parcels_packed_alone() {
        let topic = Arc::new(Topic::new("things", "thing"));
        let payloads: Vec<String> = (0..400).map(|n| format!("\"{}\"", "x".repeat(n * n % 40_000))).collect();
        let mut packer = Packer::default();
        let mut pack = |payload| packer.pack(&contents(payload, Some("k")), topic.clone(), true).unwrap();
        let together: Vec<Parcel> = payloads.iter().map(|payload| pack(payload)).collect();
        for (parcel, payload) in together.iter().zip(&payloads) {
            assert_eq!(*parcel, super::pack(contents(payload, Some("k")), topic.clone(), true).unwrap());
        }
        assert_eq!(together[0].headers.get("x-schema"), Some("thing.happened.v12"));
    }

    #[test]
    fn a_message_that_cannot_be_packed_does_not_affect_the_next() {
        let topic = Arc::new(Topic::new("things", "thing"));
        let extensions = [("payload".to_owned(), true.into())].into_iter().collect();
        let (mut bad, good) = (contents("1", None), contents("2", None));
        bad.envelope.extensions = Some(&extensions);
        let mut packer = Packer::default();
        packer.pack(&bad, topic.clone(), true).unwrap_err();
        assert_eq!(packer.pack(&good, topic.clone(), true).unwrap(), super::pack(good, topic, true).unwrap());
    }
}
