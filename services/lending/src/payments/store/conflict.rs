//! Transactions that were sent again with different data.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

/// A repetition of the same data is counted and is not a further conflict. A resolved conflict stays resolved.
const RECORD: &str = "
    INSERT INTO lending.payment_conflict AS c (tenant_id, conflict_id, payment_id, idempotency_key, differs, raw_payload)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (payment_id, tenant_id, idempotency_key)
        DO UPDATE SET times = c.times + 1, last_seen_at = now()
    RETURNING conflict_id, times";
const LIST: &str = "
    SELECT conflict_id, payment_id, differs, seen_at, last_seen_at, times, resolved_at, resolution, note
    FROM lending.payment_conflict
    WHERE ($1::boolean OR resolved_at IS NULL) AND ($2::uuid IS NULL OR conflict_id > $2)
    ORDER BY conflict_id LIMIT $3";
const FIND: &str = "
    SELECT conflict_id, payment_id, differs, seen_at, last_seen_at, times, resolved_at, resolution, note
    FROM lending.payment_conflict WHERE conflict_id = $1 FOR UPDATE";
const RESOLVE: &str = "
    UPDATE lending.payment_conflict SET resolved_at = now(), resolution = $2, note = $3 WHERE conflict_id = $1
    RETURNING conflict_id, payment_id, differs, seen_at, last_seen_at, times, resolved_at, resolution, note";

/// The data of a conflict when it is first seen.
pub(crate) struct NewConflict<'a> {
    pub payment_id: Uuid,
    pub key: &'a str,
    pub differs: &'a Value,
    pub raw: &'a Value,
}

/// A conflict as operators see it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PaymentConflict {
    pub conflict_id: Uuid,
    pub payment_id: Uuid,
    pub differs: Value,
    pub seen_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub times: i32,
    pub resolved_at: Option<Timestamp>,
    pub resolution: Option<String>,
    pub note: Option<String>,
}

/// Stores a conflict. Returns its id, and how often the same data was sent.
pub(crate) async fn record_conflict(tx: &Tx, new: &NewConflict<'_>) -> Result<(Uuid, i32), DbError> {
    let NewConflict { payment_id, key, differs, raw } = new;
    let tenant = tx.tenant()?.as_str();
    let row = tx.query_one(RECORD, &[&tenant, &Uuid::now_v7(), payment_id, key, differs, raw]).await?;
    Ok((row.get(0), row.get(1)))
}

/// Lists open conflicts, or `all`, starting after `after`.
pub(crate) async fn list_conflicts(
    tx: &Tx,
    all: bool,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<PaymentConflict>, DbError> {
    Ok(tx.query(LIST, &[&all, &after, &limit]).await?.iter().map(read).collect())
}

/// Returns the conflict, locked until the transaction ends.
pub(crate) async fn find_conflict(tx: &Tx, id: Uuid) -> Result<Option<PaymentConflict>, DbError> {
    Ok(tx.query_opt(FIND, &[&id]).await?.as_ref().map(read))
}

/// Resolves a conflict, which must be locked.
pub(crate) async fn resolve_conflict(
    tx: &Tx,
    id: Uuid,
    resolution: &str,
    note: Option<&str>,
) -> Result<PaymentConflict, DbError> {
    Ok(read(&tx.query_one(RESOLVE, &[&id, &resolution, &note]).await?))
}

pub(super) fn read(row: &Row) -> PaymentConflict {
    PaymentConflict {
        conflict_id: row.get("conflict_id"),
        payment_id: row.get("payment_id"),
        differs: row.get("differs"),
        seen_at: row.get("seen_at"),
        last_seen_at: row.get("last_seen_at"),
        times: row.get("times"),
        resolved_at: row.get("resolved_at"),
        resolution: row.get("resolution"),
        note: row.get("note"),
    }
}
