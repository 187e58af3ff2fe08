//! Landing: messages received from an external bus are appended to the lanes of the queue that reads them.

use crate::{
    BusError, MessageLog,
    append::{StoredFields, has_nul},
    hash::KeyHash,
    positions,
    routes::DeclaredQueue,
    settle::{self, ConsumerIdentity},
};
use jiff::Timestamp;
use onceward_broker::{Arrival, DeadReason, Delivery, Position};
use onceward_db::{Scope, Tx};
use onceward_envelope::{fingerprint, fingerprint_hex, headers};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use uuid::Uuid;

// In `migrations/0012_land.sql`:
const COUNT_LANDED: &str = "SELECT onceward.count_landed($1, $2)";
// In `migrations/0006_enqueue.sql`:
const RECORD_INBOX: &str = "SELECT onceward.record_inbox($1, $2, $3)";
// In `migrations/0012_land.sql`:
const LAND: &str = "SELECT onceward.land($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";

/// The tenant of dead letters whose message names none.
const PLATFORM_TENANT: &str = "platform";

/// The result of landing a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LandedBatch {
    /// Messages received.
    pub received: usize,
    /// Messages that cannot be read; they are now dead letters.
    pub malformed: usize,
}

/// The reader's progress, written in the same commit as a batch.
#[derive(Clone, Debug, Default)]
pub struct ReceiverProgress {
    /// The reader's positions on the bus.
    pub positions: Vec<Position>,
    /// Whether the batch is counted, for a bus that cannot report the age of waiting messages.
    pub is_counted: bool,
}

impl ReceiverProgress {
    async fn write(&self, tx: &mut Tx, queue: &str, received: usize) -> Result<(), BusError> {
        if !self.positions.is_empty() {
            tx.query(positions::SAVE_POSITIONS, &[&positions::to_json(&self.positions), &false]).await?;
        }
        if self.is_counted {
            tx.query(COUNT_LANDED, &[&queue, &i64::try_from(received).unwrap_or(i64::MAX)]).await?;
        }
        Ok(())
    }
}

/// Lands `arrivals` for `consumer`, in order. Messages that landed before are skipped, so repeating the call after an
/// error is harmless. A message that the database cannot store becomes a dead letter of its own. `progress` is written
/// in the same commit or, if messages must be landed one by one, right after the last of them.
pub async fn land(
    log: &MessageLog,
    consumer: &str,
    queue: &DeclaredQueue,
    arrivals: &[Arrival],
    progress: &ReceiverProgress,
) -> Result<LandedBatch, BusError> {
    let identity = ConsumerIdentity::of(consumer, queue);
    let error = match land_together(log, &identity, queue, arrivals, progress).await {
        Err(error) if !error.is_transient() => error,
        landed => return landed,
    };
    tracing::warn!(queue = %identity.queue, %error, "landing a batch as a whole failed; landing its messages one by one");
    let mut landed = LandedBatch::default();
    for arrival in arrivals {
        let alone = std::slice::from_ref(arrival);
        let one = match land_together(log, &identity, queue, alone, &ReceiverProgress::default()).await {
            Err(error) if !error.is_transient() => {
                let mut tx = log.db().begin(Scope::platform("onceward")).await?;
                insert_malformed(&mut tx, &identity, arrival, "the database cannot store it").await?;
                tx.commit().await?;
                LandedBatch { received: 1, malformed: 1 }
            }
            one => one?,
        };
        landed.received += one.received;
        landed.malformed += one.malformed;
    }
    let mut tx = log.db().begin(Scope::platform("onceward")).await?;
    progress.write(&mut tx, &identity.queue, landed.received).await?;
    tx.commit().await?;
    Ok(landed)
}

/// Lands all `arrivals` in one commit.
async fn land_together(
    log: &MessageLog,
    identity: &ConsumerIdentity,
    queue: &DeclaredQueue,
    arrivals: &[Arrival],
    progress: &ReceiverProgress,
) -> Result<LandedBatch, BusError> {
    let mut columns = LandingColumns::default();
    let mut malformed = Vec::new();
    let mut seen = HashSet::new();
    for arrival in arrivals {
        match arrival.unpack() {
            Ok(delivery) if has_nul(&delivery.envelope) => {
                malformed.push((arrival, "it contains the character NUL".to_owned()))
            }
            Ok(delivery) => {
                let envelope = &delivery.envelope;
                if seen.insert((envelope.tenant_id.clone(), envelope.idempotency_key.clone())) {
                    let tenant = &envelope.tenant_id;
                    let hash = KeyHash::of_optional(tenant.as_str(), delivery.ordering_key.as_deref());
                    let lane = log.router().lane(log.wake_hub(), queue, tenant, hash, delivery.priority).await?;
                    columns.push(lane, delivery);
                }
            }
            Err(error) => malformed.push((arrival, error.to_string())),
        }
    }
    let mut tx = log.db().begin(Scope::platform("onceward")).await?;
    let lanes = columns.write(&mut tx, &identity.consumer).await?;
    for (arrival, error) in &malformed {
        insert_malformed(&mut tx, identity, arrival, error).await?;
    }
    progress.write(&mut tx, &identity.queue, arrivals.len()).await?;
    tx.commit().await?;
    log.wake_hub().committed(lanes);
    Ok(LandedBatch { received: arrivals.len(), malformed: malformed.len() })
}

/// Stores an unreadable message as a dead letter, unchanged and only once.
async fn insert_malformed(
    tx: &mut Tx,
    identity: &ConsumerIdentity,
    arrival: &Arrival,
    error: &str,
) -> Result<(), BusError> {
    let (key, letter) = malformed_letter(identity, arrival, error);
    let first: bool = tx.query_one(RECORD_INBOX, &[&PLATFORM_TENANT, &key, &identity.consumer]).await?.get(0);
    if first {
        tx.query(settle::BURY, &[&Value::from(vec![letter])]).await?;
    }
    Ok(())
}

/// Returns the dead letter of an unreadable message, and the key that identifies it when it arrives again.
pub(crate) fn malformed_letter(identity: &ConsumerIdentity, arrival: &Arrival, error: &str) -> (String, Value) {
    let digest = fingerprint(&arrival.body);
    let key = format!("malformed:{}", fingerprint_hex(&arrival.body));
    // PostgreSQL text cannot contain NUL.
    let text = |text: &str| text.replace('\0', "\u{fffd}");
    let header = |name: &str| text(arrival.header(name).unwrap_or_default());
    let all: Map<String, Value> =
        arrival.headers.iter().map(|(name, value)| (text(name), text(value).into())).collect();
    let letter = json!({
        "event_id": Uuid::from_slice(&digest[..16]).unwrap_or_default(), "tenant_id": PLATFORM_TENANT, "queue": identity.queue,
        "consumer": identity.consumer, "dead_letter_exchange": identity.dead_letter_exchange,
        "event_type": header(headers::SCHEMA), "version": 0, "correlation_id": header(headers::CORRELATION_ID),
        "reason": DeadReason::Malformed.as_str(), "attempts": 0, "first_error": error, "last_error": error,
        "first_failed_at": Timestamp::now(),
        "message": {"bodyHex": hex::encode(&arrival.body), "headers": all},
    });
    (key, letter)
}

/// The messages as one array per column.
#[derive(Default)]
struct LandingColumns {
    lane: Vec<i32>,
    deliveries: Vec<Delivery>,
}

impl LandingColumns {
    fn push(&mut self, lane: i32, delivery: Delivery) {
        self.lane.push(lane);
        self.deliveries.push(delivery);
    }

    fn of<'a, T: 'a>(&'a self, value: impl Fn(&'a Delivery) -> T) -> Vec<T> {
        column(&self.deliveries, value)
    }

    async fn write(&self, tx: &mut Tx, consumer: &str) -> Result<Vec<i32>, BusError> {
        if self.lane.is_empty() {
            return Ok(Vec::new());
        }
        let stored: Vec<StoredFields> = self.of(|delivery| StoredFields::of(&delivery.envelope, delivery.published_at));
        let row = tx
            .query_one(
                LAND,
                &[
                    &consumer,
                    &self.of(|delivery| delivery.envelope.idempotency_key.as_str()),
                    &self.of(|delivery| delivery.envelope.event_id),
                    &self.lane,
                    &column(&stored, |stored| stored.version),
                    &self.of(|delivery| delivery.envelope.tenant_id.as_str()),
                    &self.of(|delivery| delivery.envelope.event_type.name()),
                    &self.of(|delivery| delivery.topic.as_str()),
                    &self.of(|delivery| delivery.ordering_key.as_deref()),
                    &column(&stored, |stored| stored.idempotency_key),
                    &column(&stored, |stored| stored.correlation_uuid),
                    &column(&stored, |stored| stored.correlation_id),
                    &self.of(|delivery| delivery.envelope.causation_id.as_deref()),
                    &column(&stored, |stored| stored.headers.as_deref()),
                    &column(&stored, |stored| stored.payload.as_ref()),
                    &column(&stored, |stored| stored.occurred_at),
                    &self.of(|delivery| delivery.published_at),
                ],
            )
            .await?;
        Ok(row.get(0))
    }
}

/// Returns one value of each row.
fn column<'a, R, T: 'a>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}
