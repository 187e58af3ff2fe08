//! Appending messages to the log, with the commit of the transaction that publishes them.

use crate::{BusError, MessageLog, hash};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use onceward_db::{CommitBuffer, CommitStage, Connection, DbError, Tx};
use onceward_envelope::{Actor, Envelope, nul};
use onceward_topology::Topic;
use serde_json::{Map, Value};
use std::{any::Any, borrow::Cow, collections::HashSet, time::Duration};
use tokio_postgres::Statement;
use uuid::Uuid;

// In `migrations/0005_append.sql`:
const APPEND: &str = "SELECT onceward.append(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)";
const APPEND_ONE: &str = "SELECT onceward.append_one(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";

/// SQLSTATE of `onceward.append` when the caller's routes are out of date.
const TOPOLOGY_CHANGED: &str = "OW001";

/// SQLSTATE of `onceward.append` when a key was already used for different content.
const OTHER_CONTENT: &str = "OW005";

/// Publishing and storing within this time of each other count as simultaneous.
const SAME_TIME_MS: i64 = 1_000;

/// A checked message, ready to be routed and stored.
#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    /// The message.
    pub envelope: Envelope,
    /// The destination.
    pub topic: Topic,
    /// Messages with equal keys are handled in the order of their commits.
    pub ordering_key: Option<String>,
    /// The caller chose the key, so a second message with it must be recognised. A key that is only the event's own id
    /// cannot occur twice.
    pub deduplicate: bool,
    /// The type and id of the aggregate it concerns, for people and joins.
    pub aggregate: Option<(String, String)>,
    /// The message must not be handled before this time has passed.
    pub delay: Option<Duration>,
    /// The priority; 0 is the lowest.
    pub priority: u8,
}

/// A message of the buffer, with its destination.
struct BufferedMessage {
    message: OutgoingMessage,
    digest: Option<Uuid>,
    bucket: Option<i32>,
    /// One lane per destination queue; without a queue, one lane that has no reader.
    lanes: Vec<i32>,
    is_routed: bool,
    /// How many days its key is remembered, if longer than the default.
    key_days: Option<i32>,
}

/// Messages published in one transaction, written by one statement.
pub struct AppendBuffer {
    log: MessageLog,
    topology_version: i64,
    rows: Vec<BufferedMessage>,
}

/// Routes `message` and writes it with the commit of `tx`. A message whose key was already used is not written again;
/// if its content differs from the first one, this call or the commit fails with [`DbError::Conflict`].
pub async fn append(log: &MessageLog, tx: &mut Tx, message: OutgoingMessage) -> Result<(), BusError> {
    if has_nul(&message.envelope) {
        return Err(BusError::Malformed(format!(
            "the {} contains the character NUL, which cannot be stored; remove it",
            message.envelope.event_type
        )));
    }
    let table = log.router().table().await?;
    let tenant = &message.envelope.tenant_id;
    let key = message.ordering_key.as_deref();
    let key_hash = log.router().key_hash(&table, tenant, key);
    let mut lanes =
        log.router().lanes(log.wake_hub(), &table, &message.topic, tenant, key_hash, message.priority).await?;
    let is_routed = !lanes.is_empty();
    if !is_routed {
        let event_type = message.envelope.event_type.to_string();
        lanes.push(log.router().unrouted_lane(&message.topic.exchange, &event_type).await?);
    }
    let digest = message
        .deduplicate
        .then(|| hash::idempotency_digest(tenant.as_str(), message.envelope.idempotency_key.as_str()));
    let bucket = key.map(|_| key_hash.bucket());
    let buffer = tx.buffer(|| AppendBuffer { log: log.clone(), topology_version: table.version, rows: Vec::new() });
    if let Some(known) = buffer.rows.iter().find(|row| digest.is_some() && row.digest == digest) {
        return if known.has_content_of(&message) { Ok(()) } else { Err(other_content(&message.envelope).into()) };
    }
    let key_days = digest.and_then(|_| table.key_days(message.envelope.event_type.name()));
    buffer.rows.push(BufferedMessage { message, digest, bucket, lanes, is_routed, key_days });
    Ok(())
}

/// The error for a key used for two messages. It names neither the key nor the payload, because they may be personal
/// data.
fn other_content(envelope: &Envelope) -> DbError {
    DbError::Conflict(format!(
        "the idempotency key of this {} was used before for another payload or event type; publish a different message under a \
         key of its own, and repeat a publish with the same payload",
        envelope.event_type
    ))
}

impl BufferedMessage {
    /// Returns whether both are the same message except for id and time.
    fn has_content_of(&self, other: &OutgoingMessage) -> bool {
        let (ours, theirs) = (&self.message.envelope, &other.envelope);
        ours.event_type.name() == theirs.event_type.name() && ours.payload == theirs.payload
    }

    /// Writes the only row of its transaction, without arrays.
    async fn write(&self, topology: i64, connection: &Connection, statement: &Statement) -> Result<(), DbError> {
        let message = &self.message;
        let envelope = &message.envelope;
        let stored = StoredFields::of(envelope, Timestamp::now());
        let aggregate = message.aggregate.as_ref().map(|(kind, id)| (kind.as_str(), id.as_str())).unzip();
        connection
            .run(
                statement,
                &[
                    &topology,
                    &self.bucket,
                    &self.digest,
                    &envelope.event_id,
                    &self.lanes[0],
                    &stored.version,
                    &envelope.tenant_id.as_str(),
                    &envelope.event_type.name(),
                    &message.topic.to_string(),
                    &message.ordering_key,
                    &stored.idempotency_key,
                    &stored.correlation_uuid,
                    &stored.correlation_id,
                    &envelope.causation_id,
                    &aggregate.0,
                    &aggregate.1,
                    &stored.headers,
                    &stored.payload,
                    &stored.occurred_at,
                    &self.key_days,
                ],
            )
            .await
            .map(drop)
    }
}

impl AppendBuffer {
    /// Converts the errors of `onceward.append` into errors that the caller can act on.
    fn explain(&self, error: DbError) -> DbError {
        match error.sql_state().map(|state| state.code()) {
            Some(TOPOLOGY_CHANGED) => {
                self.log.router().invalidate();
                DbError::Stale("the topology changed while this was being published; try again".into())
            }
            Some(OTHER_CONTENT) => match self.rows.iter().filter(|row| row.digest.is_some()).collect::<Vec<_>>()[..] {
                [only] => other_content(&only.message.envelope),
                _ => DbError::Conflict(format!("{error}: one of the {} messages published together", self.rows.len())),
            },
            _ => error,
        }
    }

    /// Returns whether the buffer has a single message for at most one queue, without a delay.
    fn has_one_row(&self) -> bool {
        matches!(&self.rows[..], [row] if row.lanes.len() == 1 && row.message.delay.is_none())
    }
}

impl CommitBuffer for AppendBuffer {
    fn stage() -> CommitStage {
        CommitStage::Messages
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn truncate(&mut self, len: usize) {
        self.rows.truncate(len);
    }

    fn statement(&self) -> &'static str {
        if self.has_one_row() { APPEND_ONE } else { APPEND }
    }

    fn write<'a>(&'a self, connection: &'a Connection, statement: &'a Statement) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(async move {
            let written = match &self.rows[..] {
                [row] if self.has_one_row() => row.write(self.topology_version, connection, statement).await,
                rows => AppendColumns::of(rows).write(self.topology_version, connection, statement).await,
            };
            written.map_err(|error| self.explain(error))
        })
    }

    fn committed(&self) {
        let lanes: HashSet<i32> =
            self.rows.iter().filter(|row| row.is_routed).flat_map(|row| row.lanes.iter().copied()).collect();
        self.log.wake_hub().committed(lanes);
        for row in self.rows.iter().filter(|row| !row.is_routed) {
            let OutgoingMessage { envelope, topic, .. } = &row.message;
            self.log.router().unrouted().record(&topic.to_string(), &envelope.event_type.to_string());
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The rows as one array per column.
#[derive(Default)]
struct AppendColumns<'a> {
    buckets: Vec<i32>,
    digests: Vec<Uuid>,
    id: Vec<Uuid>,
    digest: Vec<Option<Uuid>>,
    lane: Vec<i32>,
    copy: Vec<i16>,
    version: Vec<i16>,
    tenant: Vec<&'a str>,
    event_type: Vec<&'a str>,
    topic: Vec<String>,
    ordering_key: Vec<Option<&'a str>>,
    idempotency_key: Vec<Option<&'a str>>,
    correlation_uuid: Vec<Option<Uuid>>,
    correlation: Vec<Option<&'a str>>,
    causation: Vec<Option<&'a str>>,
    aggregate_type: Vec<Option<&'a str>>,
    aggregate_id: Vec<Option<&'a str>>,
    headers: Vec<Option<String>>,
    payload: Vec<Cow<'a, str>>,
    occurred: Vec<Option<Timestamp>>,
    delay_ms: Vec<Option<i64>>,
    key_days: Vec<Option<i32>>,
}

impl<'a> AppendColumns<'a> {
    fn of(rows: &'a [BufferedMessage]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.buckets.extend(row.bucket);
            columns.digests.extend(row.digest);
            for (copy, &lane) in row.lanes.iter().enumerate() {
                columns.push(row, lane, i16::try_from(copy).unwrap_or(i16::MAX));
            }
        }
        // The order is the same for every publisher, so that two of them cannot deadlock.
        columns.buckets.sort_unstable();
        columns.buckets.dedup();
        columns.digests.sort_unstable();
        columns
    }

    fn push(&mut self, row: &'a BufferedMessage, lane: i32, copy: i16) {
        let message = &row.message;
        let envelope = &message.envelope;
        let stored = StoredFields::of(envelope, Timestamp::now());
        self.id.push(envelope.event_id);
        self.digest.push(row.digest);
        self.lane.push(lane);
        self.copy.push(copy);
        self.version.push(stored.version);
        self.tenant.push(envelope.tenant_id.as_str());
        self.event_type.push(envelope.event_type.name());
        self.topic.push(message.topic.to_string());
        self.ordering_key.push(message.ordering_key.as_deref());
        self.idempotency_key.push(stored.idempotency_key);
        self.correlation_uuid.push(stored.correlation_uuid);
        self.correlation.push(stored.correlation_id);
        self.causation.push(envelope.causation_id.as_deref());
        self.aggregate_type.push(message.aggregate.as_ref().map(|(kind, _)| kind.as_str()));
        self.aggregate_id.push(message.aggregate.as_ref().map(|(_, id)| id.as_str()));
        self.headers.push(stored.headers);
        self.payload.push(stored.payload);
        self.occurred.push(stored.occurred_at);
        self.delay_ms.push(message.delay.map(|delay| i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)));
        self.key_days.push(row.key_days);
    }

    async fn write(&self, topology: i64, connection: &Connection, statement: &Statement) -> Result<(), DbError> {
        connection
            .run(
                statement,
                &[
                    &topology,
                    &self.buckets,
                    &self.digests,
                    &self.id,
                    &self.digest,
                    &self.lane,
                    &self.copy,
                    &self.version,
                    &self.tenant,
                    &self.event_type,
                    &self.topic,
                    &self.ordering_key,
                    &self.idempotency_key,
                    &self.correlation_uuid,
                    &self.correlation,
                    &self.causation,
                    &self.aggregate_type,
                    &self.aggregate_id,
                    &self.headers,
                    &self.payload,
                    &self.occurred,
                    &self.delay_ms,
                    &self.key_days,
                ],
            )
            .await
            .map(drop)
    }
}

/// Returns whether anything stored as JSON contains a NUL. Stored as text, it would go unnoticed until the message is
/// deferred.
pub(crate) fn has_nul(envelope: &Envelope) -> bool {
    let in_actor =
        |actor: &Actor| [&actor.user_id, &actor.service].into_iter().flatten().any(|text| text.contains('\0'));
    envelope.payload.has_nul()
        || envelope.actor.as_ref().is_some_and(in_actor)
        || envelope.extensions.iter().any(|(name, value)| name.contains('\0') || nul::in_value(value))
}

/// The fields of an envelope as the columns of the log contain them. What another column implies is `None`.
pub(crate) struct StoredFields<'e> {
    pub version: i16,
    /// `None`: the event's own id.
    pub idempotency_key: Option<&'e str>,
    /// The correlation id, if it is a UUID.
    pub correlation_uuid: Option<Uuid>,
    /// The correlation id, if it is anything else.
    pub correlation_id: Option<&'e str>,
    /// Actor, trace and extensions, as JSON.
    pub headers: Option<String>,
    pub payload: Cow<'e, str>,
    /// `None`: the time at which the message is stored.
    pub occurred_at: Option<Timestamp>,
}

impl<'e> StoredFields<'e> {
    /// Returns the fields of a message that is stored as published at `published_at`.
    pub(crate) fn of(envelope: &'e Envelope, published_at: Timestamp) -> Self {
        let key = envelope.idempotency_key.as_str();
        let correlation_id = envelope.correlation_id.as_str();
        let correlation_uuid = canonical_uuid(correlation_id);
        let apart_ms = published_at.as_millisecond() - envelope.occurred_at.as_millisecond();
        Self {
            version: i16::try_from(envelope.event_type.version()).unwrap_or(i16::MAX),
            idempotency_key: (canonical_uuid(key) != Some(envelope.event_id)).then_some(key),
            correlation_uuid,
            correlation_id: correlation_uuid.is_none().then_some(correlation_id),
            headers: stored_headers(envelope).map(|headers| headers.to_string()),
            payload: envelope.payload.text(),
            occurred_at: (apart_ms.abs() > SAME_TIME_MS).then_some(envelope.occurred_at),
        }
    }
}

/// Returns the UUID whose canonical form is exactly `text`.
fn canonical_uuid(text: &str) -> Option<Uuid> {
    let uuid = Uuid::try_parse(text).ok()?;
    let mut buffer = Uuid::encode_buffer();
    (uuid.hyphenated().encode_lower(&mut buffer) == text).then_some(uuid)
}

/// Returns the parts of the envelope that have no column: actor, trace, extensions. `None` if it has none of them.
pub(crate) fn stored_headers(envelope: &Envelope) -> Option<Value> {
    let mut headers = Map::new();
    if let Some(trace) = &envelope.trace {
        headers.insert("traceparent".into(), trace.traceparent().into());
        if let Some(state) = trace.tracestate() {
            headers.insert("tracestate".into(), state.into());
        }
    }
    if let Some(actor) = &envelope.actor {
        headers.insert("actor".into(), serde_json::to_value(actor).unwrap_or_default());
    }
    if !envelope.extensions.is_empty() {
        headers.insert("extensions".into(), Value::Object(envelope.extensions.clone()));
    }
    (!headers.is_empty()).then_some(Value::Object(headers))
}
