//! What happened, and whom to tell.

use super::CHANNEL;
use onceward::{DbError, Tx};
use uuid::Uuid;

/// An event that is known already was fanned out when it came first. All of a tenant's events are kept for a replay, also those
/// that no endpoint wants now.
const FAN_OUT: &str = "
    WITH fresh AS (
        INSERT INTO webhooks.event (tenant_id, event_id, event_type, body)
        SELECT $1, e.id, e.type, e.body FROM unnest($2::uuid[], $3::text[], $4::text[]) AS e (id, type, body)
        ON CONFLICT DO NOTHING
        RETURNING event_id, event_type),
    made AS (
        INSERT INTO webhooks.delivery (tenant_id, endpoint_id, event_id)
        SELECT $1, p.endpoint_id, f.event_id
        FROM fresh f JOIN webhooks.endpoint p ON webhooks.wants(p.event_types, f.event_type)
        WHERE p.deleted_at IS NULL AND p.disabled_at IS NULL
        RETURNING 1)
    SELECT count(*) FROM made";
const ADD: &str = "
    INSERT INTO webhooks.delivery (tenant_id, endpoint_id, event_id) VALUES ($1, $2, $3) RETURNING delivery_id";
const INSERT: &str = "INSERT INTO webhooks.event (tenant_id, event_id, event_type, body) VALUES ($1, $2, $3, $4)";
const WAKE: &str = "SELECT pg_notify($1, '')";

pub(crate) struct NewEvent {
    pub event_id: Uuid,
    pub event_type: String,
    pub body: String,
}

/// Keeps the events and makes a delivery for each endpoint that wants one. Gives the number of deliveries.
pub(crate) async fn fan_out(tx: &Tx, events: &[NewEvent]) -> Result<i64, DbError> {
    let ids: Vec<Uuid> = events.iter().map(|event| event.event_id).collect();
    let types: Vec<&str> = events.iter().map(|event| event.event_type.as_str()).collect();
    let bodies: Vec<&str> = events.iter().map(|event| event.body.as_str()).collect();
    Ok(tx.query_one(FAN_OUT, &[&tx.tenant()?.as_str(), &ids, &types, &bodies]).await?.get(0))
}

/// Keeps an event for one endpoint, whatever it wants. Gives the delivery's id.
pub(crate) async fn add_delivery(tx: &Tx, endpoint_id: Uuid, event: &NewEvent) -> Result<Uuid, DbError> {
    let tenant = tx.tenant()?.as_str();
    tx.execute(INSERT, &[&tenant, &event.event_id, &event.event_type, &event.body]).await?;
    Ok(tx.query_one(ADD, &[&tenant, &endpoint_id, &event.event_id]).await?.get(0))
}

/// Tells those who send that there is something to send, once this is committed.
pub(crate) async fn wake(tx: &Tx) -> Result<(), DbError> {
    tx.query_one(WAKE, &[&CHANNEL]).await.map(drop)
}
