//! The facts about payments that were seen on the bus.

use jiff::Timestamp;
use onceward::{DbError, Envelope, Tx};
use uuid::Uuid;

const NOTE: &str = "
    INSERT INTO lending.payment_event (tenant_id, event_id, event_type, payment_id, loan_id, occurred_at)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT DO NOTHING
    RETURNING (SELECT i.received_at FROM lending.payment_intake i WHERE i.tenant_id = $1 AND i.payment_id = $4)";

/// Notes a fact. `None`: it was seen before; else when its payment was received, if it is about one.
pub(crate) async fn note_event(
    tx: &Tx,
    envelope: &Envelope,
    payment_id: Option<Uuid>,
    loan_id: Uuid,
) -> Result<Option<Option<Timestamp>>, DbError> {
    let tenant = tx.tenant()?.as_str();
    let event_type = envelope.event_type.to_string();
    let params: [&(dyn onceward::db::ToSql + Sync); 6] =
        [&tenant, &envelope.event_id, &event_type, &payment_id, &loan_id, &envelope.occurred_at];
    Ok(tx.query_opt(NOTE, &params).await?.map(|row| row.get(0)))
}
