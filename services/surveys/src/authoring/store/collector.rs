//! Collectors and invites.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const INSERT: &str = "
    INSERT INTO surveys.collector (tenant_id, collector_id, survey_id, name, kind, opens_at, closes_at, cap)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    RETURNING collector_id, survey_id, name, kind, status, opens_at, closes_at, cap, let_in_n, created_at";
const LIST: &str = "
    SELECT collector_id, survey_id, name, kind, status, opens_at, closes_at, cap, let_in_n, created_at
    FROM surveys.collector WHERE survey_id = $1 ORDER BY collector_id LIMIT $2";
const LOCK: &str = "
    SELECT collector_id, survey_id, name, kind, status, opens_at, closes_at, cap, let_in_n, created_at
    FROM surveys.collector WHERE collector_id = $1 FOR NO KEY UPDATE";
const SET_STATUS: &str = "UPDATE surveys.collector SET status = $2 WHERE collector_id = $1";
const INVITE: &str = "
    INSERT INTO surveys.invite (tenant_id, invite_id, collector_id, external_ref)
    SELECT $1, i.id, $2, i.external_ref FROM unnest($3::uuid[], $4::text[]) AS i (id, external_ref)";

/// The fields of a new collector.
#[derive(Debug, Deserialize)]
pub(in crate::authoring) struct NewCollector {
    pub name: String,
    pub kind: String,
    pub opens_at: Option<Timestamp>,
    pub closes_at: Option<Timestamp>,
    pub cap: Option<i32>,
}

/// A collector.
#[derive(Clone, Debug, Serialize)]
pub(in crate::authoring) struct Collector {
    pub collector_id: Uuid,
    pub survey_id: Uuid,
    pub name: String,
    pub kind: String,
    pub status: String,
    pub opens_at: Option<Timestamp>,
    pub closes_at: Option<Timestamp>,
    pub cap: Option<i32>,
    /// Counted only if the collector has a cap.
    pub let_in: i32,
    pub created_at: Timestamp,
}

impl Collector {
    fn parse(row: &Row) -> Self {
        Self {
            collector_id: row.get(0),
            survey_id: row.get(1),
            name: row.get(2),
            kind: row.get(3),
            status: row.get(4),
            opens_at: row.get(5),
            closes_at: row.get(6),
            cap: row.get(7),
            let_in: row.get(8),
            created_at: row.get(9),
        }
    }
}

/// An invite, with the sender's own reference for it.
pub(in crate::authoring) struct Invite {
    pub invite_id: Uuid,
    pub external_ref: Option<String>,
}

pub(in crate::authoring) async fn insert_collector(
    tx: &Tx,
    survey_id: Uuid,
    new: &NewCollector,
) -> Result<Collector, DbError> {
    let NewCollector { name, kind, opens_at, closes_at, cap } = new;
    let id = Uuid::now_v7();
    let params: [&(dyn postgres_types::ToSql + Sync); 8] =
        [&tx.tenant()?.as_str(), &id, &survey_id, name, kind, opens_at, closes_at, cap];
    Ok(Collector::parse(&tx.query_one(INSERT, &params).await?))
}

pub(in crate::authoring) async fn list_collectors(
    tx: &Tx,
    survey_id: Uuid,
    limit: i64,
) -> Result<Vec<Collector>, DbError> {
    Ok(tx.query(LIST, &[&survey_id, &limit]).await?.iter().map(Collector::parse).collect())
}

pub(in crate::authoring) async fn lock_collector(tx: &Tx, collector_id: Uuid) -> Result<Option<Collector>, DbError> {
    Ok(tx.query_opt(LOCK, &[&collector_id]).await?.as_ref().map(Collector::parse))
}

pub(in crate::authoring) async fn set_collector_status(
    tx: &Tx,
    collector_id: Uuid,
    status: &str,
) -> Result<(), DbError> {
    tx.execute(SET_STATUS, &[&collector_id, &status]).await?;
    Ok(())
}

pub(in crate::authoring) async fn insert_invites(
    tx: &Tx,
    collector_id: Uuid,
    invites: &[Invite],
) -> Result<(), DbError> {
    let ids: Vec<Uuid> = invites.iter().map(|invite| invite.invite_id).collect();
    let refs: Vec<Option<&str>> = invites.iter().map(|invite| invite.external_ref.as_deref()).collect();
    tx.execute(INVITE, &[&tx.tenant()?.as_str(), &collector_id, &ids, &refs]).await?;
    Ok(())
}
