//! The facts about payments that were seen on the bus.

use jiff::Timestamp;
use onceward::{DbError, Envelope, Tx};
use std::collections::HashMap;
use uuid::Uuid;

const NOTE: &str = "
    WITH fresh AS (
        INSERT INTO lending.payment_event (tenant_id, event_id, event_type, payment_id, loan_id, occurred_at)
        SELECT $1, n.event_id, n.event_type, n.payment_id, n.loan_id, n.occurred_at
        FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::uuid[], $6::timestamptz[])
            AS n (event_id, event_type, payment_id, loan_id, occurred_at)
        ON CONFLICT DO NOTHING
        RETURNING event_id, payment_id)
    SELECT f.event_id, i.received_at FROM fresh f LEFT JOIN lending.payment_intake i ON i.payment_id = f.payment_id";

/// A fact that was seen.
pub(crate) struct Seen<'e> {
    pub envelope: &'e Envelope,
    pub payment_id: Option<Uuid>,
    pub loan_id: Uuid,
}

/// Notes facts. Gives those that were not seen before, each with when its payment was received, if it is about one.
pub(crate) async fn note_events(tx: &Tx, seen: &[Seen<'_>]) -> Result<HashMap<Uuid, Option<Timestamp>>, DbError> {
    let tenant = tx.tenant()?.as_str();
    let ids: Vec<Uuid> = seen.iter().map(|seen| seen.envelope.event_id).collect();
    let types: Vec<String> = seen.iter().map(|seen| seen.envelope.event_type.to_string()).collect();
    let payments: Vec<Option<Uuid>> = seen.iter().map(|seen| seen.payment_id).collect();
    let loans: Vec<Uuid> = seen.iter().map(|seen| seen.loan_id).collect();
    let times: Vec<Timestamp> = seen.iter().map(|seen| seen.envelope.occurred_at).collect();
    let rows = tx.query(NOTE, &[&tenant, &ids, &types, &payments, &loans, &times]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
