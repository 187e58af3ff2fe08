//! The delivery log, and sending again.

use jiff::Timestamp;
use onceward::{DbError, Tx};
use serde_json::Value;
use uuid::Uuid;

/// Attempts that are shown of a delivery, the latest first.
const ATTEMPTS_SHOWN: i64 = 20;

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
/// One that is being sent at this moment stays with whoever sends it.
const RESEND: &str = "
    UPDATE webhooks.delivery SET state = 'pending', attempts = 0, due_at = now(), settled_at = NULL, leased_until = NULL
    WHERE delivery_id = $1 AND (leased_until IS NULL OR leased_until < now())";
/// A test was for the endpoint that was tested.
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

/// Which deliveries of an endpoint.
pub(crate) struct Filter<'a> {
    pub endpoint_id: Uuid,
    pub state: Option<&'a str>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

/// Deliveries, the latest first, and from where to go on.
pub(crate) struct Page {
    pub deliveries: Vec<Value>,
    pub next: Option<Uuid>,
}

pub(crate) async fn list_deliveries(
    tx: &Tx,
    filter: &Filter<'_>,
    before: Option<Uuid>,
    limit: usize,
) -> Result<Page, DbError> {
    let Filter { endpoint_id, state, from, to } = filter;
    // One more than is shown tells whether there is another page.
    let more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let rows = tx.query(LIST, &[endpoint_id, state, from, to, &before, &more, &ATTEMPTS_SHOWN]).await?;
    let next = (rows.len() > limit).then(|| rows[limit - 1].get(0));
    Ok(Page { deliveries: rows.iter().take(limit).map(|row| row.get(1)).collect(), next })
}

/// As the API shows it, and its endpoint.
pub(crate) async fn find_delivery(tx: &Tx, id: Uuid) -> Result<Option<(Value, Uuid)>, DbError> {
    let row = tx.query_opt(FIND, &[&id, &ATTEMPTS_SHOWN]).await?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

pub(crate) async fn resend(tx: &Tx, id: Uuid) -> Result<(), DbError> {
    tx.execute(RESEND, &[&id]).await.map(drop)
}

/// What a replay did.
pub(crate) struct Replayed {
    /// Deliveries that are made again. Those that wait anyway are not among them.
    pub deliveries: i64,
    /// Where the rest begins, if there were too many events.
    pub next_from: Option<Timestamp>,
}

/// Makes the deliveries of `most` events at most again, the oldest first.
pub(crate) async fn replay(
    tx: &Tx,
    endpoint_id: Uuid,
    (from, to): (Timestamp, Timestamp),
    event_types: Option<&[String]>,
    most: i64,
) -> Result<Replayed, DbError> {
    let row = tx.query_one(REPLAY, &[&tx.tenant()?.as_str(), &endpoint_id, &from, &to, &event_types, &most]).await?;
    let all = row.get::<_, i64>(1) < most;
    Ok(Replayed { deliveries: row.get(0), next_from: if all { None } else { row.get(2) } })
}
