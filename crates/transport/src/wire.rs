//! A message as every broker carries it: the envelope as body, and beside it what the platform needs to route and place it.

use crate::Delivery;
use bytes::Bytes;
use jiff::Timestamp;
use onceward_envelope::{
    Envelope, EnvelopeError, EnvelopeParts, TraceContext, append_time,
    headers::{self, Headers},
};
use onceward_topology::Topic;
use std::sync::Arc;
use uuid::Uuid;

/// `<exchange>:<routing key>`, for buses that have no such words.
pub const TOPIC: &str = "x-topic";
/// The ordering key.
pub const ORDERING_KEY: &str = "x-ordering-key";
/// The priority, unless it is 0.
pub const PRIORITY: &str = "x-priority";
/// When it was published, in RFC 3339.
pub const PUBLISHED_AT: &str = "x-published-at";

/// A message on its way to a broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Parcel {
    /// The event's id.
    pub id: Uuid,
    /// Where to. Many parcels go the same way.
    pub topic: Arc<Topic>,
    /// Messages with equal keys stay in order.
    pub ordering_key: Option<String>,
    /// 0 is the lowest.
    pub priority: u8,
    /// Beside the body; names are lower case and unique.
    pub headers: Headers,
    /// The envelope in JSON.
    pub body: Bytes,
    /// The topology has a queue for it, so that none taking it is an error.
    pub expected: bool,
}

/// A message as it came from a broker. Nothing of it is trusted yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// Beside the body; the topic, key and priority of [`Parcel`] are among them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// How often it was handed out before, as far as the broker tells.
    pub redeliveries: u32,
}

impl Arrival {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads the message. An error says what is wrong with it and never quotes it.
    pub fn unpack(&self) -> Result<Delivery, EnvelopeError> {
        let mut envelope = Envelope::from_json_bytes(&self.body)?;
        envelope.trace = self.header(headers::TRACEPARENT).and_then(TraceContext::parse);
        Ok(Delivery {
            queue_tenant: envelope.tenant_id.clone(),
            topic: self.header(TOPIC).unwrap_or_default().to_owned(),
            ordering_key: self.header(ORDERING_KEY).filter(|key| (1..=255).contains(&key.len())).map(str::to_owned),
            priority: self.header(PRIORITY).and_then(|text| text.parse().ok()).unwrap_or(0),
            attempt: 1,
            published_at: self.header(PUBLISHED_AT).and_then(|text| text.parse().ok()).unwrap_or_else(Timestamp::now),
            first_error: None,
            first_failed_at: None,
            envelope,
        })
    }
}

/// What a parcel is made of, borrowed from wherever it is kept.
#[derive(Clone, Debug)]
pub struct Contents<'a> {
    /// The message.
    pub envelope: EnvelopeParts<'a>,
    /// Messages with equal keys stay in order.
    pub ordering_key: Option<&'a str>,
    /// 0 is the lowest.
    pub priority: u8,
    /// When it was published.
    pub published_at: Timestamp,
}

impl<'a> From<&'a Delivery> for Contents<'a> {
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
pub fn pack<'a>(contents: impl Into<Contents<'a>>, topic: Arc<Topic>, expected: bool) -> Result<Parcel, EnvelopeError> {
    let Contents { envelope, ordering_key, priority, published_at } = contents.into();
    let mut headers = envelope.headers();
    headers.write(TOPIC, |text| topic.append_to(text));
    headers.write(PUBLISHED_AT, |text| append_time(&published_at, text));
    if let Some(key) = ordering_key {
        headers.push(ORDERING_KEY, key);
    }
    if priority > 0 {
        headers.push(PRIORITY, &priority.to_string());
    }
    Ok(Parcel {
        id: envelope.event_id,
        topic,
        ordering_key: ordering_key.map(str::to_owned),
        priority,
        headers,
        body: envelope.to_json_bytes()?.into(),
        expected,
    })
}
