//! Stores events and creates their deliveries.

use super::CHANNEL;
use onceward::{DbError, Tx, envelope::TraceContext};
use uuid::Uuid;

/// An event that is already stored was fanned out when it first arrived. All events of a tenant are stored for a replay,
/// including those that no endpoint subscribes to now.
const FAN_OUT: &str = "
    WITH fresh AS (
        INSERT INTO webhooks.event (tenant_id, event_id, event_type, body, traceparent, tracestate)
        SELECT $1, e.id, e.type, e.body, e.traceparent, e.tracestate
        FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[])
            AS e (id, type, body, traceparent, tracestate)
        ON CONFLICT DO NOTHING
        RETURNING event_id, event_type),
    made AS (
        INSERT INTO webhooks.delivery (tenant_id, endpoint_id, event_id)
        SELECT $1, p.endpoint_id, f.event_id
        FROM fresh f JOIN webhooks.endpoint p ON webhooks.wants(p.event_types, f.event_type)
        WHERE p.deleted_at IS NULL AND p.disabled_at IS NULL
        RETURNING 1)
    SELECT count(*) FROM made";
const INSERT_DELIVERY: &str = "
    INSERT INTO webhooks.delivery (tenant_id, endpoint_id, event_id) VALUES ($1, $2, $3) RETURNING delivery_id";
const INSERT_EVENT: &str = "
    INSERT INTO webhooks.event (tenant_id, event_id, event_type, body, traceparent, tracestate)
    VALUES ($1, $2, $3, $4, $5, $6)";
const WAKE: &str = "SELECT pg_notify($1, '')";

pub(crate) struct NewWebhookEvent {
    pub event_id: Uuid,
    pub event_type: String,
    pub body: String,
    /// The trace that the event belongs to.
    pub trace: Option<TraceContext>,
}

impl NewWebhookEvent {
    fn traceparent(&self) -> Option<&str> {
        self.trace.as_ref().map(TraceContext::traceparent)
    }

    fn tracestate(&self) -> Option<&str> {
        self.trace.as_ref().and_then(TraceContext::tracestate)
    }
}

/// Stores the events and creates a delivery for each endpoint that subscribes to one. Returns the number of deliveries.
pub(crate) async fn fan_out(tx: &Tx, events: &[NewWebhookEvent]) -> Result<i64, DbError> {
    let ids: Vec<Uuid> = events.iter().map(|event| event.event_id).collect();
    let types: Vec<&str> = events.iter().map(|event| event.event_type.as_str()).collect();
    let bodies: Vec<&str> = events.iter().map(|event| event.body.as_str()).collect();
    let traces: Vec<Option<&str>> = events.iter().map(NewWebhookEvent::traceparent).collect();
    let states: Vec<Option<&str>> = events.iter().map(NewWebhookEvent::tracestate).collect();
    Ok(tx.query_one(FAN_OUT, &[&tx.tenant()?.as_str(), &ids, &types, &bodies, &traces, &states]).await?.get(0))
}

/// Stores an event for one endpoint, regardless of its filters. Returns the id of its delivery.
pub(crate) async fn insert_event_for(tx: &Tx, endpoint_id: Uuid, event: &NewWebhookEvent) -> Result<Uuid, DbError> {
    let tenant = tx.tenant()?.as_str();
    let (traceparent, tracestate) = (event.traceparent(), event.tracestate());
    tx.execute(INSERT_EVENT, &[&tenant, &event.event_id, &event.event_type, &event.body, &traceparent, &tracestate])
        .await?;
    Ok(tx.query_one(INSERT_DELIVERY, &[&tenant, &endpoint_id, &event.event_id]).await?.get(0))
}

/// Wakes the senders when this transaction commits.
pub(crate) async fn wake_senders(tx: &Tx) -> Result<(), DbError> {
    tx.query_one(WAKE, &[&CHANNEL]).await.map(drop)
}
