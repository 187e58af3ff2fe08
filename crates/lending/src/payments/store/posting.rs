//! Postings, what was posted again, what came back, and what was taken from suspense.

use crate::model::Allocation;
use crate::payments::events::NewBalances;
use jiff::{Timestamp, civil::Date};
use onceward::{DbError, Row, Tx, db::ToSql};
use onceward_money::Minor;
use postgres_types::Json;
use serde_json::{Map, Value};
use std::collections::HashMap;
use uuid::Uuid;

/// `later`: the loan's books hold something that takes effect after the payment. CASE, because behind row-level security
/// `coalesce` keeps a condition out of the index.
const STATE: &str = "
    SELECT i.payment_id, i.loan_id, i.amount_minor, d.effective_date, v.is_valid, v.validated_at, v.allocation_hints,
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
    SELECT i.payment_id, i.loan_id, i.amount_minor, v.effective_date, v.allocation_hints, p.held,
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
/// Oldest first. What is reversed, and what reverses, is not alive.
const ALIVE: &str = "
    SELECT e.event_id, e.schema, e.correlation_id, e.effective_date
    FROM ledger.ledger_event e
    WHERE e.loan_id = $1 AND e.finalized_at IS NOT NULL AND e.reverses IS NULL
      AND (e.effective_date > $2 AND e.schema = ANY ($3) OR e.effective_date = $2 AND e.schema = ANY ($4))
      AND NOT EXISTS (SELECT FROM ledger.ledger_event r WHERE r.tenant_id = e.tenant_id AND r.reverses = e.event_id)
    ORDER BY e.effective_date, e.event_id
    LIMIT $5";
/// Up to when interest is booked by what is alive and takes effect by a day.
const ACCRUED_BY: &str = "
    SELECT max(e.effective_date)
    FROM ledger.ledger_event e
    WHERE e.loan_id = $1 AND e.schema = $2 AND e.effective_date <= $3 AND e.finalized_at IS NOT NULL AND e.reverses IS NULL
      AND NOT EXISTS (SELECT FROM ledger.ledger_event r WHERE r.tenant_id = e.tenant_id AND r.reverses = e.event_id)";
const INSERT_REPLAY: &str = "
    INSERT INTO lending.loan_replay (tenant_id, loan_id, number, from_day, because, payment_id, taken_back)
    SELECT $1, $2, coalesce(max(number), 0) + 1, $3, $4, $5, $6 FROM lending.loan_replay WHERE loan_id = $2
    RETURNING number";
const INSERT_RETURN: &str = "
    INSERT INTO lending.payment_return
        (tenant_id, payment_id, event_id, reversal_id, returned_on, reason, fee_minor, fee_event_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const INSERT_ALLOCATION: &str = "
    INSERT INTO lending.suspense_allocation
        (tenant_id, allocation_id, version, loan_id, effective_date, event_id, applied)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT DO NOTHING";
const ALLOCATIONS: &str = "
    SELECT DISTINCT ON (allocation_id) allocation_id, version, effective_date
    FROM lending.suspense_allocation WHERE loan_id = $1 AND effective_date >= $2
    ORDER BY allocation_id, version DESC";

/// A payment that may be posted, and how it stands with that.
pub(crate) struct State {
    pub loan_id: Uuid,
    pub amount: Minor,
    pub effective_date: Date,
    pub hints: Map<String, Value>,
    /// When it was found good; `None`: it was not.
    pub validated_at: Option<Timestamp>,
    pub posted: bool,
    pub later: bool,
}

pub(crate) async fn posting_state(tx: &Tx, payment_id: Uuid) -> Result<Option<State>, DbError> {
    Ok(posting_states(tx, &[payment_id]).await?.remove(&payment_id))
}

/// How each of `payments` stands.
pub(crate) async fn posting_states(tx: &Tx, payments: &[Uuid]) -> Result<HashMap<Uuid, State>, DbError> {
    tx.query(STATE, &[&payments]).await?.iter().map(|row| Ok((row.get("payment_id"), read_state(row)?))).collect()
}

fn read_state(row: &Row) -> Result<State, DbError> {
    let hints = row.try_get::<_, Option<Json<_>>>("allocation_hints")?.map(|Json(hints)| hints);
    let good = row.get::<_, Option<bool>>("is_valid") == Some(true);
    Ok(State {
        loan_id: row.get("loan_id"),
        amount: row.get("amount_minor"),
        effective_date: row.get("effective_date"),
        hints: hints.unwrap_or_default(),
        validated_at: row.get::<_, Option<Timestamp>>("validated_at").filter(|_| good),
        posted: row.get("posted"),
        later: row.get("later"),
    })
}

/// A payment that is posted now.
pub(crate) struct Posting {
    pub payment_id: Uuid,
    pub event_id: Uuid,
    pub applied: Vec<Allocation>,
    pub new_balances: NewBalances,
    pub held: bool,
}

pub(crate) async fn insert_postings(tx: &Tx, postings: &[Posting]) -> Result<(), DbError> {
    let tenant = tx.tenant()?.as_str();
    let payments: Vec<Uuid> = postings.iter().map(|posting| posting.payment_id).collect();
    let events: Vec<Uuid> = postings.iter().map(|posting| posting.event_id).collect();
    let applied: Vec<Json<&[Allocation]>> = postings.iter().map(|posting| Json(posting.applied.as_slice())).collect();
    let balances: Vec<Json<NewBalances>> = postings.iter().map(|posting| Json(posting.new_balances)).collect();
    let held: Vec<bool> = postings.iter().map(|posting| posting.held).collect();
    tx.execute(INSERT_POSTING, &[&tenant, &payments, &events, &applied, &balances, &held]).await.map(drop)
}

/// A payment that is in the ledger.
#[derive(Debug, Clone)]
pub(crate) struct Posted {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub amount: Minor,
    pub effective_date: Date,
    pub hints: Map<String, Value>,
    pub held: bool,
    /// Tells which of a day's payments came first.
    pub first_event: Uuid,
    /// The event in force.
    pub event_id: Uuid,
    pub version: i32,
    pub applied: Vec<Allocation>,
    pub returned: bool,
}

pub(crate) async fn find_posted(tx: &Tx, payments: &[Uuid]) -> Result<Vec<Posted>, DbError> {
    tx.query(POSTED, &[&payments]).await?.iter().map(read_posted).collect()
}

fn read_posted(row: &Row) -> Result<Posted, DbError> {
    let (Json(hints), Json(applied)) = (row.try_get("allocation_hints")?, row.try_get("applied")?);
    Ok(Posted {
        payment_id: row.get("payment_id"),
        loan_id: row.get("loan_id"),
        amount: row.get("amount_minor"),
        effective_date: row.get("effective_date"),
        hints,
        held: row.get("held"),
        first_event: row.get("first_event"),
        event_id: row.get("event_id"),
        version: row.get("version"),
        applied,
        returned: row.get("returned"),
    })
}

/// A payment that is posted again.
pub(crate) struct Repost<'a> {
    pub payment_id: Uuid,
    pub version: i32,
    pub event_id: Uuid,
    pub replaces: Uuid,
    pub reversal_id: Uuid,
    pub applied: &'a [Allocation],
    pub replay: i32,
}

pub(crate) async fn insert_repost(tx: &Tx, repost: &Repost<'_>) -> Result<(), DbError> {
    let Repost { payment_id, version, event_id, replaces, reversal_id, applied, replay } = repost;
    let tenant = tx.tenant()?.as_str();
    let params: [&(dyn ToSql + Sync); 8] =
        [&tenant, payment_id, version, event_id, replaces, reversal_id, &Json(applied), replay];
    tx.execute(INSERT_REPOST, &params).await.map(drop)
}

/// An event that stands in the ledger.
#[derive(Debug, Clone)]
pub(crate) struct Alive {
    pub event_id: Uuid,
    pub schema: String,
    pub correlation_id: String,
    pub effective_date: Date,
}

/// What stands after `day`, of `schemas`, and on the day itself, of `on_the_day`.
pub(crate) async fn alive_after(
    tx: &Tx,
    loan_id: Uuid,
    day: Date,
    schemas: &[&str],
    on_the_day: &[&str],
    limit: i64,
) -> Result<Vec<Alive>, DbError> {
    let rows = tx.query(ALIVE, &[&loan_id, &day, &schemas, &on_the_day, &limit]).await?;
    let read = |row: &Row| Alive {
        event_id: row.get(0),
        schema: row.get(1),
        correlation_id: row.get(2),
        effective_date: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}

pub(crate) async fn accrued_by(tx: &Tx, loan_id: Uuid, schema: &str, day: Date) -> Result<Option<Date>, DbError> {
    Ok(tx.query_one(ACCRUED_BY, &[&loan_id, &schema, &day]).await?.get(0))
}

/// Its number, which counts the loan's replays. The loan is locked.
pub(crate) async fn insert_replay(
    tx: &Tx,
    loan_id: Uuid,
    from: Date,
    because: &str,
    payment_id: Uuid,
    taken_back: usize,
) -> Result<i32, DbError> {
    let tenant = tx.tenant()?.as_str();
    let taken_back = i32::try_from(taken_back).unwrap_or(i32::MAX);
    let row = tx.query_one(INSERT_REPLAY, &[&tenant, &loan_id, &from, &because, &payment_id, &taken_back]).await?;
    Ok(row.get(0))
}

/// A payment that came back.
pub(crate) struct Return<'a> {
    pub payment_id: Uuid,
    pub event_id: Uuid,
    pub reversal_id: Uuid,
    pub returned_on: Date,
    pub reason: &'a str,
    pub fee: Option<(Minor, Uuid)>,
}

pub(crate) async fn insert_return(tx: &Tx, back: &Return<'_>) -> Result<(), DbError> {
    let Return { payment_id, event_id, reversal_id, returned_on, reason, fee } = back;
    let tenant = tx.tenant()?.as_str();
    let (fee, fee_event) = fee.unzip();
    let params: [&(dyn ToSql + Sync); 8] =
        [&tenant, payment_id, event_id, reversal_id, returned_on, reason, &fee, &fee_event];
    tx.execute(INSERT_RETURN, &params).await.map(drop)
}

/// Money that was, or was to be, taken from suspense.
pub(crate) struct Taken<'a> {
    pub allocation_id: Uuid,
    pub version: i32,
    pub loan_id: Uuid,
    pub effective_date: Date,
    pub event_id: Option<Uuid>,
    pub applied: &'a [Allocation],
}

/// `false`: that version is there.
pub(crate) async fn insert_allocation(tx: &Tx, taken: &Taken<'_>) -> Result<bool, DbError> {
    let Taken { allocation_id, version, loan_id, effective_date, event_id, applied } = taken;
    let tenant = tx.tenant()?.as_str();
    let params: [&(dyn ToSql + Sync); 7] =
        [&tenant, allocation_id, version, loan_id, effective_date, event_id, &Json(applied)];
    Ok(tx.execute(INSERT_ALLOCATION, &params).await? == 1)
}

/// What a loan took from suspense, in its latest version.
#[derive(Debug, Clone)]
pub(crate) struct Allocated {
    pub allocation_id: Uuid,
    pub version: i32,
    pub effective_date: Date,
}

pub(crate) async fn find_allocations(tx: &Tx, loan_id: Uuid, from: Date) -> Result<Vec<Allocated>, DbError> {
    let rows = tx.query(ALLOCATIONS, &[&loan_id, &from]).await?;
    let read = |row: &Row| Allocated { allocation_id: row.get(0), version: row.get(1), effective_date: row.get(2) };
    Ok(rows.iter().map(read).collect())
}
