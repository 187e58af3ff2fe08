//! Payment events that were seen on the bus.

use jiff::Timestamp;
use onceward::{DbError, Envelope, Tx};
use uuid::Uuid;

const RECORD: &str = "
    INSERT INTO lending.payment_event (tenant_id, event_id, event_type, payment_id, loan_id, occurred_at)
    SELECT $1, n.event_id, n.event_type, n.payment_id, n.loan_id, n.occurred_at
    FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::uuid[], $6::timestamptz[])
        AS n (event_id, event_type, payment_id, loan_id, occurred_at)
    ON CONFLICT DO NOTHING";

/// An event that was seen.
pub(crate) struct SeenEvent<'e> {
    pub envelope: &'e Envelope,
    pub payment_id: Option<Uuid>,
    pub loan_id: Uuid,
}

/// Records events that were not seen before.
pub(crate) async fn record_seen_events(tx: &Tx, seen: &[SeenEvent<'_>]) -> Result<(), DbError> {
    let tenant = tx.tenant()?.as_str();
    let ids: Vec<Uuid> = seen.iter().map(|seen| seen.envelope.event_id).collect();
    let types: Vec<String> = seen.iter().map(|seen| seen.envelope.event_type.to_string()).collect();
    let payments: Vec<Option<Uuid>> = seen.iter().map(|seen| seen.payment_id).collect();
    let loans: Vec<Uuid> = seen.iter().map(|seen| seen.loan_id).collect();
    let times: Vec<Timestamp> = seen.iter().map(|seen| seen.envelope.occurred_at).collect();
    tx.execute(RECORD, &[&tenant, &ids, &types, &payments, &loans, &times]).await.map(drop)
}
