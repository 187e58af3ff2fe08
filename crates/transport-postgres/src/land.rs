//! Landing: messages that came over an external bus go to the lanes of the queue that reads them.

use crate::{
    PostgresTransport,
    append::{canonical_uuid, has_nul, occurred_earlier, stored_headers, stored_key, stored_version},
    hash::KeyHash,
    routes::DeclaredQueue,
    settle::Identity,
    store,
};
use jiff::Timestamp;
use onceward_db::{Scope, Tx};
use onceward_envelope::{fingerprint, fingerprint_hex, headers};
use onceward_transport::{Arrival, DeadReason, Delivery, TransportError};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use uuid::Uuid;

/// In whose name messages are put away that name nobody.
const NOBODY: &str = "platform";

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Landed {
    /// Messages that came.
    pub received: usize,
    /// Messages that cannot be read; they are dead letters now.
    pub malformed: usize,
}

/// Lands `arrivals` for `consumer`, in their order. What has landed before is left out, so that doing it again after
/// an error is harmless. A message that the database cannot hold is put away by itself.
pub async fn land(
    bus: &PostgresTransport,
    consumer: &str,
    queue: &DeclaredQueue,
    arrivals: &[Arrival],
) -> Result<Landed, TransportError> {
    let identity = Identity::of(consumer, queue);
    let error = match land_together(bus, &identity, queue, arrivals).await {
        Err(error) if !error.is_transient() => error,
        landed => return landed,
    };
    tracing::warn!(queue = %identity.queue, %error, "a batch cannot be landed as a whole; landing its messages one by one");
    let mut landed = Landed::default();
    for arrival in arrivals {
        let one = match land_together(bus, &identity, queue, std::slice::from_ref(arrival)).await {
            Err(error) if !error.is_transient() => {
                let mut tx = bus.db().begin(Scope::platform("onceward")).await?;
                put_away(&mut tx, &identity, arrival, "the database cannot hold it").await?;
                tx.commit().await?;
                Landed { received: 1, malformed: 1 }
            }
            one => one?,
        };
        landed.received += one.received;
        landed.malformed += one.malformed;
    }
    Ok(landed)
}

/// All in one commit.
async fn land_together(
    bus: &PostgresTransport,
    identity: &Identity,
    queue: &DeclaredQueue,
    arrivals: &[Arrival],
) -> Result<Landed, TransportError> {
    let mut columns = Columns::default();
    let mut malformed = Vec::new();
    let mut seen = HashSet::new();
    for arrival in arrivals {
        match arrival.unpack() {
            Ok(delivery) if has_nul(&delivery.envelope) => {
                malformed.push((arrival, "it holds the character NUL".to_owned()))
            }
            Ok(delivery) => {
                let envelope = &delivery.envelope;
                if seen.insert((envelope.tenant_id.clone(), envelope.idempotency_key.clone())) {
                    let tenant = &envelope.tenant_id;
                    let hash = KeyHash::of_optional(tenant.as_str(), delivery.ordering_key.as_deref());
                    let lane = bus.routes().lane(bus.wakes(), queue, tenant, hash, delivery.priority).await?;
                    columns.push(lane, delivery);
                }
            }
            Err(error) => malformed.push((arrival, error.to_string())),
        }
    }
    let mut tx = bus.db().begin(Scope::platform("onceward")).await?;
    let lanes = columns.write(&mut tx, &identity.consumer).await?;
    for (arrival, error) in &malformed {
        put_away(&mut tx, identity, arrival, error).await?;
    }
    tx.commit().await?;
    bus.wakes().committed(lanes);
    Ok(Landed { received: arrivals.len(), malformed: malformed.len() })
}

/// A message that cannot be read becomes a dead letter as it is, once.
async fn put_away(tx: &mut Tx, identity: &Identity, arrival: &Arrival, error: &str) -> Result<(), TransportError> {
    let (key, letter) = malformed_letter(identity, arrival, error);
    let first: bool = tx.query_one(store::RECORD_INBOX, &[&NOBODY, &key, &identity.consumer]).await?.get(0);
    if first {
        tx.query(store::BURY, &[&Value::from(vec![letter])]).await?;
    }
    Ok(())
}

/// The letter of a message that cannot be read, and the key by which it is known when it comes again.
pub(crate) fn malformed_letter(identity: &Identity, arrival: &Arrival, error: &str) -> (String, Value) {
    let digest = fingerprint(&arrival.body);
    let key = format!("malformed:{}", fingerprint_hex(&arrival.body));
    // PostgreSQL holds no NUL in its texts.
    let text = |text: &str| text.replace('\0', "\u{fffd}");
    let header = |name: &str| text(arrival.header(name).unwrap_or_default());
    let all: Map<String, Value> =
        arrival.headers.iter().map(|(name, value)| (text(name), text(value).into())).collect();
    let letter = json!({
        "event_id": Uuid::from_slice(&digest[..16]).unwrap_or_default(), "tenant_id": NOBODY, "queue": identity.queue,
        "consumer": identity.consumer, "dead_letter_exchange": identity.dead_letter_exchange,
        "event_type": header(headers::SCHEMA), "version": 0, "correlation_id": header(headers::CORRELATION_ID),
        "reason": DeadReason::Malformed.as_str(), "attempts": 0, "first_error": error, "last_error": error,
        "first_failed_at": Timestamp::now(),
        "message": {"bodyHex": hex::encode(&arrival.body), "headers": all},
    });
    (key, letter)
}

/// The messages, one array a column.
#[derive(Default)]
struct Columns {
    lane: Vec<i32>,
    deliveries: Vec<Delivery>,
}

impl Columns {
    fn push(&mut self, lane: i32, delivery: Delivery) {
        self.lane.push(lane);
        self.deliveries.push(delivery);
    }

    fn of<'a, T: 'a>(&'a self, value: impl Fn(&'a Delivery) -> T) -> Vec<T> {
        self.deliveries.iter().map(value).collect()
    }

    async fn write(&self, tx: &mut Tx, consumer: &str) -> Result<Vec<i32>, TransportError> {
        if self.lane.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<&str> = self.of(|delivery| delivery.envelope.idempotency_key.as_str());
        let correlations: Vec<Option<Uuid>> =
            self.of(|delivery| canonical_uuid(delivery.envelope.correlation_id.as_str()));
        let other_correlations: Vec<Option<&str>> = self
            .of(|delivery| delivery.envelope.correlation_id.as_str())
            .into_iter()
            .zip(&correlations)
            .map(|(text, uuid)| uuid.is_none().then_some(text))
            .collect();
        let row = tx
            .query_one(
                store::LAND,
                &[
                    &consumer,
                    &keys,
                    &self.of(|delivery| delivery.envelope.event_id),
                    &self.lane,
                    &self.of(|delivery| stored_version(&delivery.envelope)),
                    &self.of(|delivery| delivery.envelope.tenant_id.as_str()),
                    &self.of(|delivery| delivery.envelope.event_type.name()),
                    &self.of(|delivery| delivery.topic.as_str()),
                    &self.of(|delivery| delivery.ordering_key.as_deref()),
                    &self.of(|delivery| stored_key(&delivery.envelope)),
                    &correlations,
                    &other_correlations,
                    &self.of(|delivery| delivery.envelope.causation_id.as_deref()),
                    &self.of(|delivery| stored_headers(&delivery.envelope).map(|headers| headers.to_string())),
                    &self.of(|delivery| delivery.envelope.payload.text()),
                    &self.of(|delivery| occurred_earlier(&delivery.envelope, delivery.published_at)),
                    &self.of(|delivery| delivery.published_at),
                ],
            )
            .await?;
        Ok(row.get(0))
    }
}
