//! Appending messages to the log, with the commit of the transaction that publishes them.

use crate::{PostgresTransport, hash, store};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use onceward_db::{CommitBuffer, Connection, DbError, Stage, Tx};
use onceward_envelope::{Actor, Envelope, nul};
use onceward_topology::Topic;
use onceward_transport::TransportError;
use serde_json::{Map, Value};
use std::{any::Any, borrow::Cow, collections::HashSet, time::Duration};
use tokio_postgres::Statement;
use uuid::Uuid;

/// SQLSTATE of `onceward.append` when the caller's routes are out of date.
const TOPOLOGY_CHANGED: &str = "OW001";

/// Publishing and storing this close together count as one moment.
const SAME_TIME_MS: i64 = 1_000;

/// A checked message, ready to be routed and stored.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The message.
    pub envelope: Envelope,
    /// Where to.
    pub topic: Topic,
    /// Messages with equal keys are handled in the order of their commits.
    pub ordering_key: Option<String>,
    /// The key was given by the caller, so a second message with it must be recognised. A key that
    /// is only the event's own id cannot come twice.
    pub deduplicate: bool,
    /// The aggregate it speaks of, for people and joins.
    pub aggregate: Option<(String, String)>,
    /// Not to be handled before this time has passed.
    pub delay: Option<Duration>,
    /// 0 is the lowest.
    pub priority: u8,
}

struct Row {
    message: Outgoing,
    digest: Option<Uuid>,
    bucket: Option<i32>,
    lanes: Vec<i32>,
}

/// Messages published in one transaction; written by one statement.
pub struct AppendBuffer {
    bus: PostgresTransport,
    topology_version: i64,
    rows: Vec<Row>,
}

/// Routes `message` and writes it with the commit of `tx`.
pub async fn append(bus: &PostgresTransport, tx: &mut Tx, message: Outgoing) -> Result<(), TransportError> {
    if has_nul(&message.envelope) {
        return Err(TransportError::Malformed(format!(
            "the {} holds the character NUL, which cannot be stored",
            message.envelope.event_type
        )));
    }
    let table = bus.routes().table().await?;
    let tenant = &message.envelope.tenant_id;
    let key = message.ordering_key.as_deref();
    let key_hash = bus.routes().place(&table, tenant, key);
    let lanes = bus.routes().lanes(bus.wakes(), &table, &message.topic, tenant, key_hash, message.priority).await?;
    let digest = message
        .deduplicate
        .then(|| hash::idempotency_digest(tenant.as_str(), message.envelope.idempotency_key.as_str()));
    let bucket = key.map(|_| key_hash.bucket());
    let buffer = tx.buffer(|| AppendBuffer { bus: bus.clone(), topology_version: table.version, rows: Vec::new() });
    if digest.is_some() && buffer.rows.iter().any(|row| row.digest == digest) {
        return Ok(());
    }
    buffer.rows.push(Row { message, digest, bucket, lanes });
    Ok(())
}

impl Row {
    /// The only row of its transaction, without arrays.
    async fn write(&self, topology: i64, connection: &Connection, statement: &Statement) -> Result<(), DbError> {
        let message = &self.message;
        let envelope = &message.envelope;
        let correlation = envelope.correlation_id.as_str();
        let correlation_uuid = canonical_uuid(correlation);
        let aggregate = message.aggregate.as_ref().map(|(kind, id)| (kind.as_str(), id.as_str())).unzip();
        connection
            .run(
                statement,
                &[
                    &topology,
                    &self.bucket,
                    &self.digest,
                    &envelope.event_id,
                    &self.lanes.first().copied().unwrap_or(0),
                    &stored_version(envelope),
                    &envelope.tenant_id.as_str(),
                    &envelope.event_type.name(),
                    &message.topic.to_string(),
                    &message.ordering_key,
                    &stored_key(envelope),
                    &correlation_uuid,
                    &correlation_uuid.is_none().then_some(correlation),
                    &envelope.causation_id,
                    &aggregate.0,
                    &aggregate.1,
                    &stored_headers(envelope).map(|headers| headers.to_string()),
                    &envelope.payload.text().as_ref(),
                    &occurred_earlier(envelope, Timestamp::now()),
                ],
            )
            .await
            .map(drop)
    }
}

impl AppendBuffer {
    /// One message to one queue at most, to be handled at once.
    fn only_one(&self) -> bool {
        matches!(&self.rows[..], [row] if row.lanes.len() <= 1 && row.message.delay.is_none())
    }
}

impl CommitBuffer for AppendBuffer {
    fn stage() -> Stage {
        Stage::Messages
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn truncate(&mut self, len: usize) {
        self.rows.truncate(len);
    }

    fn statement(&self) -> &'static str {
        if self.only_one() { store::APPEND_ONE } else { store::APPEND }
    }

    fn write<'a>(&'a self, connection: &'a Connection, statement: &'a Statement) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(async move {
            let written = match &self.rows[..] {
                [row] if self.only_one() => row.write(self.topology_version, connection, statement).await,
                rows => Columns::of(rows).write(self.topology_version, connection, statement).await,
            };
            if let Err(error) = &written
                && error.sql_state().is_some_and(|state| state.code() == TOPOLOGY_CHANGED)
            {
                self.bus.routes().forget();
                return Err(DbError::Stale("the topology changed while this was being published; try again".into()));
            }
            written
        })
    }

    fn committed(&self) {
        let lanes: HashSet<i32> = self.rows.iter().flat_map(|row| row.lanes.iter().copied()).collect();
        self.bus.wakes().committed(lanes);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The rows, turned into one array a column.
#[derive(Default)]
struct Columns<'a> {
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
}

impl<'a> Columns<'a> {
    fn of(rows: &'a [Row]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.buckets.extend(row.bucket);
            columns.digests.extend(row.digest);
            let lanes: &[i32] = if row.lanes.is_empty() { &[0] } else { &row.lanes };
            for (copy, &lane) in lanes.iter().enumerate() {
                columns.push(row, lane, i16::try_from(copy).unwrap_or(i16::MAX));
            }
        }
        // One order for everybody, so that two publishers cannot wait for each other.
        columns.buckets.sort_unstable();
        columns.buckets.dedup();
        columns.digests.sort_unstable();
        columns
    }

    fn push(&mut self, row: &'a Row, lane: i32, copy: i16) {
        let message = &row.message;
        let envelope = &message.envelope;
        self.id.push(envelope.event_id);
        self.digest.push(row.digest);
        self.lane.push(lane);
        self.copy.push(copy);
        self.version.push(stored_version(envelope));
        self.tenant.push(envelope.tenant_id.as_str());
        self.event_type.push(envelope.event_type.name());
        self.topic.push(message.topic.to_string());
        self.ordering_key.push(message.ordering_key.as_deref());
        self.idempotency_key.push(stored_key(envelope));
        let correlation = envelope.correlation_id.as_str();
        let uuid = canonical_uuid(correlation);
        self.correlation_uuid.push(uuid);
        self.correlation.push(uuid.is_none().then_some(correlation));
        self.causation.push(envelope.causation_id.as_deref());
        self.aggregate_type.push(message.aggregate.as_ref().map(|(kind, _)| kind.as_str()));
        self.aggregate_id.push(message.aggregate.as_ref().map(|(_, id)| id.as_str()));
        self.headers.push(stored_headers(envelope).map(|headers| headers.to_string()));
        self.payload.push(envelope.payload.text());
        self.occurred.push(occurred_earlier(envelope, Timestamp::now()));
        self.delay_ms.push(message.delay.map(|delay| i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)));
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
                ],
            )
            .await
            .map(drop)
    }
}

/// Whether what is stored as JSON holds a NUL. Kept as text, nobody would notice until it is put aside.
pub(crate) fn has_nul(envelope: &Envelope) -> bool {
    let in_actor =
        |actor: &Actor| [&actor.user_id, &actor.service].into_iter().flatten().any(|text| text.contains('\0'));
    envelope.payload.has_nul()
        || envelope.actor.as_ref().is_some_and(in_actor)
        || envelope.extensions.iter().any(|(name, value)| name.contains('\0') || nul::in_value(value))
}

pub(crate) fn stored_version(envelope: &Envelope) -> i16 {
    i16::try_from(envelope.event_type.version()).unwrap_or(i16::MAX)
}

/// The key, unless it is only the event's own id.
pub(crate) fn stored_key(envelope: &Envelope) -> Option<&str> {
    let key = envelope.idempotency_key.as_str();
    (canonical_uuid(key) != Some(envelope.event_id)).then_some(key)
}

/// The UUID that prints exactly as `text`.
pub(crate) fn canonical_uuid(text: &str) -> Option<Uuid> {
    let uuid = Uuid::try_parse(text).ok()?;
    let mut buffer = Uuid::encode_buffer();
    (uuid.hyphenated().encode_lower(&mut buffer) == text).then_some(uuid)
}

/// When it happened, unless that is when it was `published`: then the time of the row tells it.
pub(crate) fn occurred_earlier(envelope: &Envelope, published: Timestamp) -> Option<Timestamp> {
    let apart_ms = published.as_millisecond() - envelope.occurred_at.as_millisecond();
    (apart_ms.abs() > SAME_TIME_MS).then_some(envelope.occurred_at)
}

/// What of the envelope has no column: actor, trace, extensions. `None` when there is none of it.
pub(crate) fn stored_headers(envelope: &Envelope) -> Option<Value> {
    let mut headers = Map::new();
    if let Some(trace) = &envelope.trace {
        headers.insert("traceparent".into(), trace.traceparent().into());
    }
    if let Some(actor) = &envelope.actor {
        headers.insert("actor".into(), serde_json::to_value(actor).unwrap_or_default());
    }
    if !envelope.extensions.is_empty() {
        headers.insert("extensions".into(), Value::Object(envelope.extensions.clone()));
    }
    (!headers.is_empty()).then_some(Value::Object(headers))
}
