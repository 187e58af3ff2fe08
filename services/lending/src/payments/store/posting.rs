//! Postings, repeated postings, and returns.

use crate::model::Allocation;
use crate::payments::events::NewBalances;
use jiff::{Timestamp, civil::Date};
use onceward::{DbError, Row, Tx, db::ToSql};
use onceward_money::Minor;
use postgres_types::Json;
use serde_json::{Map, Value};
use std::collections::HashMap;
use uuid::Uuid;

/// `later` is whether the loan's books contain an event that takes effect after the payment. The day uses CASE, because under row-level
/// security `coalesce` prevents the use of the index for the condition.
const STATE: &str = "
    SELECT i.payment_id, i.loan_id, i.amount_minor, i.received_at, d.effective_date, v.is_valid, v.validated_at, v.allocation_hints,
        p.event_id IS NOT NULL AS posted,
        EXISTS (SELECT FROM ledger.ledger_event e
                WHERE e.tenant_id = i.tenant_id AND e.loan_id = i.loan_id AND e.effective_date > d.effective_date
                  AND e.finalized_at IS NOT NULL) AS later
    FROM lending.payment_intake i
    LEFT JOIN lending.payment_validation v ON v.tenant_id = i.tenant_id AND v.payment_id = i.payment_id
    LEFT JOIN lending.payment_posting p ON p.tenant_id = i.tenant_id AND p.payment_id = i.payment_id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN v.effective_date IS NULL THEN i.effective_date ELSE v.effective_date END AS effective_date) d
    WHERE i.payment_id = ANY ($1)";
const INSERT_POSTING: &str = "
    INSERT INTO lending.payment_posting (tenant_id, payment_id, event_id, applied, new_balances, held)
    SELECT $1, n.payment_id, n.event_id, n.applied, n.new_balances, n.held
    FROM unnest($2::uuid[], $3::uuid[], $4::jsonb[], $5::jsonb[], $6::bool[])
        AS n (payment_id, event_id, applied, new_balances, held)";
const INSERT_REPOST: &str = "
    INSERT INTO lending.payment_repost (tenant_id, payment_id, version, event_id, replaces, reversal_id, applied, replay)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const POSTED: &str = "
    SELECT i.payment_id, i.loan_id, i.amount_minor, v.effective_date, v.allocation_hints,
        p.event_id AS first_event, coalesce(r.event_id, p.event_id) AS event_id, coalesce(r.version, 1) AS version,
        coalesce(r.applied, p.applied) AS applied, b.reversal_id IS NOT NULL AS returned
    FROM lending.payment_posting p
    JOIN lending.payment_intake i ON i.tenant_id = p.tenant_id AND i.payment_id = p.payment_id
    JOIN lending.payment_validation v ON v.tenant_id = p.tenant_id AND v.payment_id = p.payment_id
    LEFT JOIN lending.payment_return b ON b.tenant_id = p.tenant_id AND b.payment_id = p.payment_id
    LEFT JOIN LATERAL (
        SELECT r.event_id, r.version, r.applied FROM lending.payment_repost r
        WHERE r.tenant_id = p.tenant_id AND r.payment_id = p.payment_id ORDER BY r.version DESC LIMIT 1) r ON true
    WHERE p.payment_id = ANY ($1)";
const INSERT_RETURN: &str = "
    INSERT INTO lending.payment_return
        (tenant_id, payment_id, event_id, reversal_id, returned_on, reason, fee_minor, fee_event_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

/// A payment and its state with respect to posting.
pub(crate) struct PostingState {
    pub loan_id: Uuid,
    pub amount: Minor,
    pub received_at: Timestamp,
    pub effective_date: Date,
    pub hints: Map<String, Value>,
    /// When it passed validation; `None` if it did not.
    pub validated_at: Option<Timestamp>,
    pub posted: bool,
    /// Whether the loan's books contain an event that takes effect after the payment.
    pub later: bool,
}

pub(crate) async fn posting_state(tx: &Tx, payment_id: Uuid) -> Result<Option<PostingState>, DbError> {
    Ok(posting_states(tx, &[payment_id]).await?.remove(&payment_id))
}

/// Returns the state of each of `payments`.
pub(crate) async fn posting_states(tx: &Tx, payments: &[Uuid]) -> Result<HashMap<Uuid, PostingState>, DbError> {
    tx.query(STATE, &[&payments]).await?.iter().map(|row| Ok((row.get("payment_id"), read_state(row)?))).collect()
}

fn read_state(row: &Row) -> Result<PostingState, DbError> {
    let hints = row.try_get::<_, Option<Json<_>>>("allocation_hints")?.map(|Json(hints)| hints);
    let is_valid = row.get::<_, Option<bool>>("is_valid") == Some(true);
    Ok(PostingState {
        loan_id: row.get("loan_id"),
        amount: row.get("amount_minor"),
        received_at: row.get("received_at"),
        effective_date: row.get("effective_date"),
        hints: hints.unwrap_or_default(),
        validated_at: row.get::<_, Option<Timestamp>>("validated_at").filter(|_| is_valid),
        posted: row.get("posted"),
        later: row.get("later"),
    })
}

/// A posting to store.
pub(crate) struct NewPosting {
    pub payment_id: Uuid,
    pub event_id: Uuid,
    pub applied: Vec<Allocation>,
    pub new_balances: NewBalances,
    pub held: bool,
}

pub(crate) async fn insert_postings(tx: &Tx, postings: &[NewPosting]) -> Result<(), DbError> {
    let tenant = tx.tenant()?.as_str();
    let payments: Vec<Uuid> = postings.iter().map(|posting| posting.payment_id).collect();
    let events: Vec<Uuid> = postings.iter().map(|posting| posting.event_id).collect();
    let applied: Vec<Json<&[Allocation]>> = postings.iter().map(|posting| Json(posting.applied.as_slice())).collect();
    let balances: Vec<Json<NewBalances>> = postings.iter().map(|posting| Json(posting.new_balances)).collect();
    let held: Vec<bool> = postings.iter().map(|posting| posting.held).collect();
    tx.execute(INSERT_POSTING, &[&tenant, &payments, &events, &applied, &balances, &held]).await.map(drop)
}

/// A payment that is posted in the ledger.
#[derive(Debug, Clone)]
pub(crate) struct PostedPayment {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub amount: Minor,
    pub effective_date: Date,
    pub hints: Map<String, Value>,
    /// Orders the payments of a day.
    pub first_event: Uuid,
    /// The event in force.
    pub event_id: Uuid,
    pub version: i32,
    pub applied: Vec<Allocation>,
    pub returned: bool,
}

pub(crate) async fn find_posted(tx: &Tx, payments: &[Uuid]) -> Result<Vec<PostedPayment>, DbError> {
    tx.query(POSTED, &[&payments]).await?.iter().map(read_posted).collect()
}

fn read_posted(row: &Row) -> Result<PostedPayment, DbError> {
    let (Json(hints), Json(applied)) = (row.try_get("allocation_hints")?, row.try_get("applied")?);
    Ok(PostedPayment {
        payment_id: row.get("payment_id"),
        loan_id: row.get("loan_id"),
        amount: row.get("amount_minor"),
        effective_date: row.get("effective_date"),
        hints,
        first_event: row.get("first_event"),
        event_id: row.get("event_id"),
        version: row.get("version"),
        applied,
        returned: row.get("returned"),
    })
}

/// A repeated posting to store.
pub(crate) struct NewRepost<'a> {
    pub payment_id: Uuid,
    pub version: i32,
    pub event_id: Uuid,
    pub replaces: Uuid,
    pub reversal_id: Uuid,
    pub applied: &'a [Allocation],
    pub replay: i32,
}

pub(crate) async fn insert_repost(tx: &Tx, repost: &NewRepost<'_>) -> Result<(), DbError> {
    let NewRepost { payment_id, version, event_id, replaces, reversal_id, applied, replay } = repost;
    let tenant = tx.tenant()?.as_str();
    let params: [&(dyn ToSql + Sync); 8] =
        [&tenant, payment_id, version, event_id, replaces, reversal_id, &Json(applied), replay];
    tx.execute(INSERT_REPOST, &params).await.map(drop)
}

/// A return to store.
pub(crate) struct NewReturn<'a> {
    pub payment_id: Uuid,
    pub event_id: Uuid,
    pub reversal_id: Uuid,
    pub returned_on: Date,
    pub reason: &'a str,
    pub fee: Option<(Minor, Uuid)>,
}

pub(crate) async fn insert_return(tx: &Tx, new: &NewReturn<'_>) -> Result<(), DbError> {
    let NewReturn { payment_id, event_id, reversal_id, returned_on, reason, fee } = new;
    let tenant = tx.tenant()?.as_str();
    let (fee, fee_event) = fee.unzip();
    let params: [&(dyn ToSql + Sync); 8] =
        [&tenant, payment_id, event_id, reversal_id, returned_on, reason, &fee, &fee_event];
    tx.execute(INSERT_RETURN, &params).await.map(drop)
}
