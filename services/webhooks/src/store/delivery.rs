//! The delivery log, and sending deliveries again.

use jiff::Timestamp;
use onceward::{DbError, Tx};
use reqwest::Url;
use serde_json::Value;
use uuid::Uuid;

/// Attempts shown per delivery, latest first.
const ATTEMPTS_SHOWN: i64 = 20;
/// Deliveries shown in one story.
const MAX_DELIVERIES_OF_EVENTS: i64 = 1_000;

const LIST: &str = "
    SELECT d.delivery_id, jsonb_build_object('delivery_id', d.delivery_id, 'endpoint_id', d.endpoint_id, 'event_id', d.event_id,
        'event_type', e.event_type, 'state', d.state, 'attempts', d.tried, 'created_at', d.created_at,
        'due_at', CASE WHEN d.state = 'pending' THEN d.due_at END, 'settled_at', d.settled_at, 'log', l.log)
    FROM webhooks.delivery d
    JOIN webhooks.event e ON e.event_id = d.event_id AND e.tenant_id = d.tenant_id
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_agg(jsonb_build_object('number', a.number, 'started_at', a.started_at, 'duration_ms', a.duration_ms,
            'status', a.status, 'error', a.error, 'snippet', a.snippet) ORDER BY a.number DESC), '[]') AS log
        FROM (SELECT * FROM webhooks.attempt a WHERE a.delivery_id = d.delivery_id ORDER BY a.number DESC LIMIT $7) a) l
    WHERE d.endpoint_id = $1 AND ($2::text IS NULL OR d.state = $2) AND ($3::timestamptz IS NULL OR d.created_at >= $3)
      AND ($4::timestamptz IS NULL OR d.created_at < $4) AND ($5::uuid IS NULL OR d.delivery_id < $5)
    ORDER BY d.delivery_id DESC LIMIT $6";
const FIND: &str = "
    SELECT jsonb_build_object('delivery_id', d.delivery_id, 'endpoint_id', d.endpoint_id, 'event_id', d.event_id,
        'event_type', e.event_type, 'state', d.state, 'attempts', d.tried, 'created_at', d.created_at,
        'due_at', CASE WHEN d.state = 'pending' THEN d.due_at END, 'settled_at', d.settled_at, 'body', e.body, 'log', (
            SELECT coalesce(jsonb_agg(jsonb_build_object('number', a.number, 'started_at', a.started_at,
                'duration_ms', a.duration_ms, 'status', a.status, 'error', a.error, 'snippet', a.snippet)
                ORDER BY a.number DESC), '[]')
            FROM (SELECT * FROM webhooks.attempt a WHERE a.delivery_id = d.delivery_id ORDER BY a.number DESC LIMIT $2) a)),
        d.endpoint_id
    FROM webhooks.delivery d
    JOIN webhooks.event e ON e.event_id = d.event_id AND e.tenant_id = d.tenant_id
    JOIN webhooks.endpoint p ON p.endpoint_id = d.endpoint_id AND p.tenant_id = d.tenant_id
    WHERE d.delivery_id = $1 AND p.deleted_at IS NULL";
/// Finds deliveries by their event, for which there is an index; the attempts of each are in order.
const OF_EVENTS: &str = "
    SELECT d.event_id, d.delivery_id, d.endpoint_id, p.url, d.state, d.tried,
           CASE WHEN d.state = 'pending' THEN d.due_at END AS due_at, l.log
    FROM webhooks.delivery d
    JOIN webhooks.endpoint p ON p.endpoint_id = d.endpoint_id AND p.tenant_id = d.tenant_id
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_agg(jsonb_build_object('number', a.number, 'started_at', a.started_at, 'duration_ms', a.duration_ms,
            'status', a.status, 'error', a.error) ORDER BY a.number), '[]') AS log
        FROM (SELECT * FROM webhooks.attempt a WHERE a.delivery_id = d.delivery_id ORDER BY a.number DESC LIMIT $2) a) l
    WHERE d.event_id = ANY ($1)
    ORDER BY d.event_id, d.delivery_id
    LIMIT $3";
/// A delivery that is being sent stays with its sender.
const RESEND: &str = "
    UPDATE webhooks.delivery SET state = 'pending', attempts = 0, due_at = now(), settled_at = NULL, leased_until = NULL
    WHERE delivery_id = $1 AND (leased_until IS NULL OR leased_until < now())";
/// A delivery that was never sent and is not due waits only because the breaker rejected it.
const END_WAITS: &str = "
    UPDATE webhooks.delivery SET due_at = now()
    WHERE endpoint_id = $1 AND state = 'pending' AND due_at > now() AND attempts = 0 AND leased_until IS NULL";
/// Test events are omitted: they were only for the endpoint that was tested.
const REPLAY: &str = "
    WITH wanted AS (
        SELECT e.event_id, e.recorded_at FROM webhooks.event e
        JOIN webhooks.endpoint p ON p.endpoint_id = $2
        WHERE e.recorded_at >= $3 AND e.recorded_at < $4 AND e.event_type <> 'webhook.test.v1'
          AND webhooks.wants(p.event_types, e.event_type)
          AND ($5::text[] IS NULL OR webhooks.wants($5, e.event_type))
        ORDER BY e.recorded_at, e.event_id LIMIT $6),
    again AS (
        INSERT INTO webhooks.delivery AS d (tenant_id, endpoint_id, event_id)
        SELECT $1, $2, event_id FROM wanted
        ON CONFLICT (event_id, endpoint_id, tenant_id) DO UPDATE
            SET state = 'pending', attempts = 0, due_at = now(), settled_at = NULL
            WHERE d.state <> 'pending'
        RETURNING 1)
    SELECT (SELECT count(*) FROM again), count(*), max(recorded_at) FROM wanted";

/// A delivery as a story shows it.
pub(crate) struct DeliverySummary {
    pub event_id: Uuid,
    pub delivery_id: Uuid,
    pub endpoint_id: Uuid,
    /// Scheme, host and port of the endpoint's URL.
    pub origin: String,
    pub state: String,
    pub tried: i32,
    /// When the next attempt is due, if one is.
    pub due_at: Option<Timestamp>,
    /// The latest attempts, in order.
    pub log: Value,
}

/// Returns the deliveries of these events, at most [`MAX_DELIVERIES_OF_EVENTS`].
pub(crate) async fn deliveries_of_events(tx: &Tx, events: &[Uuid]) -> Result<Vec<DeliverySummary>, DbError> {
    let rows = tx.query(OF_EVENTS, &[&events, &ATTEMPTS_SHOWN, &MAX_DELIVERIES_OF_EVENTS]).await?;
    let origin = |url: &str| url.parse().map(|url: Url| url.origin().ascii_serialization()).unwrap_or_default();
    let deliveries = rows.iter().map(|row| DeliverySummary {
        event_id: row.get("event_id"),
        delivery_id: row.get("delivery_id"),
        endpoint_id: row.get("endpoint_id"),
        origin: origin(row.get("url")),
        state: row.get("state"),
        tried: row.get("tried"),
        due_at: row.get("due_at"),
        log: row.get("log"),
    });
    Ok(deliveries.collect())
}

/// Selects deliveries of an endpoint.
pub(crate) struct DeliveryFilter<'a> {
    pub endpoint_id: Uuid,
    pub state: Option<&'a str>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

/// Deliveries, latest first, and the cursor of the next page.
pub(crate) struct DeliveryPage {
    pub deliveries: Vec<Value>,
    pub next: Option<Uuid>,
}

pub(crate) async fn list_deliveries(
    tx: &Tx,
    filter: &DeliveryFilter<'_>,
    before: Option<Uuid>,
    limit: usize,
) -> Result<DeliveryPage, DbError> {
    let DeliveryFilter { endpoint_id, state, from, to } = filter;
    // One more row than the page shows indicates that another page exists.
    let fetched = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let rows = tx.query(LIST, &[endpoint_id, state, from, to, &before, &fetched, &ATTEMPTS_SHOWN]).await?;
    let next = (rows.len() > limit).then(|| rows[limit - 1].get(0));
    Ok(DeliveryPage { deliveries: rows.iter().take(limit).map(|row| row.get(1)).collect(), next })
}

/// Returns the delivery as the API shows it, and its endpoint's id.
pub(crate) async fn find_delivery(tx: &Tx, id: Uuid) -> Result<Option<(Value, Uuid)>, DbError> {
    let row = tx.query_opt(FIND, &[&id, &ATTEMPTS_SHOWN]).await?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

pub(crate) async fn resend_delivery(tx: &Tx, id: Uuid) -> Result<(), DbError> {
    tx.execute(RESEND, &[&id]).await.map(drop)
}

/// Makes the deliveries due that wait for the breaker of an endpoint, because it has another address now.
pub(crate) async fn end_waits(tx: &Tx, endpoint_id: Uuid) -> Result<(), DbError> {
    tx.execute(END_WAITS, &[&endpoint_id]).await.map(drop)
}

/// The result of a replay.
pub(crate) struct ReplayOutcome {
    /// Deliveries that are sent again, without those that were still pending.
    pub deliveries: i64,
    /// Where the next request must start, if the range contains more events than one request may replay.
    pub next_from: Option<Timestamp>,
}

/// Sets the deliveries of at most `limit` events to pending again, oldest first.
pub(crate) async fn replay_deliveries(
    tx: &Tx,
    endpoint_id: Uuid,
    (from, to): (Timestamp, Timestamp),
    event_types: Option<&[String]>,
    limit: i64,
) -> Result<ReplayOutcome, DbError> {
    let row = tx.query_one(REPLAY, &[&tx.tenant()?.as_str(), &endpoint_id, &from, &to, &event_types, &limit]).await?;
    let is_complete = row.get::<_, i64>(1) < limit;
    Ok(ReplayOutcome { deliveries: row.get(0), next_from: if is_complete { None } else { row.get(2) } })
}
