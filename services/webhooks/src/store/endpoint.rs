//! Stores endpoints.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;
use uuid::Uuid;

const INSERT: &str = "
    INSERT INTO webhooks.endpoint (tenant_id, endpoint_id, url, description, event_types, paused, max_per_second)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const LIST: &str = "
    SELECT endpoint_id, url, description, event_types, paused, max_per_second, failing_since, disabled_at, disabled_reason,
        created_at, updated_at
    FROM webhooks.endpoint WHERE deleted_at IS NULL ORDER BY endpoint_id LIMIT $1";
const FIND: &str = "
    SELECT endpoint_id, url, description, event_types, paused, max_per_second, failing_since, disabled_at, disabled_reason,
        created_at, updated_at
    FROM webhooks.endpoint WHERE endpoint_id = $1 AND deleted_at IS NULL";
const LOCK: &str = "
    SELECT endpoint_id, url, description, event_types, paused, max_per_second, failing_since, disabled_at, disabled_reason,
        created_at, updated_at
    FROM webhooks.endpoint WHERE endpoint_id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE";
const HAS: &str = "SELECT EXISTS (SELECT FROM webhooks.endpoint WHERE deleted_at IS NULL)";
/// Adding an endpoint counts under this lock, so that two concurrent requests do not see the same count.
const COUNT: &str = "
    SELECT count(*) FROM webhooks.endpoint, (SELECT pg_advisory_xact_lock(hashtextextended('webhooks:' || $1, 0))) AS locked
    WHERE deleted_at IS NULL";
const UPDATE: &str = "
    UPDATE webhooks.endpoint
    SET url = $2, description = $3, event_types = $4, paused = $5, max_per_second = $6, updated_at = now()
    WHERE endpoint_id = $1";
const DELETE: &str = "UPDATE webhooks.endpoint SET deleted_at = now(), updated_at = now() WHERE endpoint_id = $1";
const ENABLE: &str = "
    UPDATE webhooks.endpoint
    SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, updated_at = now() WHERE endpoint_id = $1";
const DISABLE: &str = "
    UPDATE webhooks.endpoint SET disabled_at = now(), disabled_reason = $2, updated_at = now()
    WHERE endpoint_id = $1 AND disabled_at IS NULL AND deleted_at IS NULL";

/// An endpoint as its owner sees it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Endpoint {
    pub endpoint_id: Uuid,
    pub url: String,
    pub description: String,
    pub event_types: Vec<String>,
    pub state: &'static str,
    pub paused: bool,
    pub max_per_second: Option<i32>,
    pub failing_since: Option<Timestamp>,
    pub disabled_at: Option<Timestamp>,
    pub disabled_reason: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The settings of an endpoint that its owner controls.
#[derive(Debug, Clone)]
pub(crate) struct EndpointSettings {
    pub url: String,
    pub description: String,
    pub event_types: Vec<String>,
    pub paused: bool,
    pub max_per_second: Option<i32>,
}

pub(crate) async fn insert_endpoint(tx: &Tx, id: Uuid, new: &EndpointSettings) -> Result<(), DbError> {
    let EndpointSettings { url, description, event_types, paused, max_per_second } = new;
    let tenant = tx.tenant()?.as_str();
    tx.execute(INSERT, &[&tenant, &id, url, description, event_types, paused, max_per_second]).await.map(drop)
}

pub(crate) async fn list_endpoints(tx: &Tx, limit: i64) -> Result<Vec<Endpoint>, DbError> {
    Ok(tx.query(LIST, &[&limit]).await?.iter().map(read_endpoint).collect())
}

pub(crate) async fn find_endpoint(tx: &Tx, id: Uuid) -> Result<Option<Endpoint>, DbError> {
    Ok(tx.query_opt(FIND, &[&id]).await?.as_ref().map(read_endpoint))
}

pub(crate) async fn lock_endpoint(tx: &Tx, id: Uuid) -> Result<Option<Endpoint>, DbError> {
    Ok(tx.query_opt(LOCK, &[&id]).await?.as_ref().map(read_endpoint))
}

pub(crate) async fn has_endpoints(tx: &Tx) -> Result<bool, DbError> {
    Ok(tx.query_one(HAS, &[]).await?.get(0))
}

/// Counts the tenant's endpoints. No other transaction can add one until this one ends.
pub(crate) async fn count_endpoints(tx: &Tx) -> Result<i64, DbError> {
    Ok(tx.query_one(COUNT, &[&tx.tenant()?.as_str()]).await?.get(0))
}

pub(crate) async fn update_endpoint(tx: &Tx, id: Uuid, settings: &EndpointSettings) -> Result<(), DbError> {
    let EndpointSettings { url, description, event_types, paused, max_per_second } = settings;
    tx.execute(UPDATE, &[&id, url, description, event_types, paused, max_per_second]).await.map(drop)
}

/// Marks an endpoint as deleted. The sweep removes its rows.
pub(crate) async fn delete_endpoint(tx: &Tx, id: Uuid) -> Result<(), DbError> {
    tx.execute(DELETE, &[&id]).await.map(drop)
}

pub(crate) async fn enable_endpoint(tx: &Tx, id: Uuid) -> Result<(), DbError> {
    tx.execute(ENABLE, &[&id]).await.map(drop)
}

/// Disables an endpoint. Returns `false` if it is disabled or deleted already.
pub(crate) async fn disable_endpoint(tx: &Tx, id: Uuid, reason: &str) -> Result<bool, DbError> {
    Ok(tx.execute(DISABLE, &[&id, &reason]).await? == 1)
}

fn read_endpoint(row: &Row) -> Endpoint {
    let paused: bool = row.get("paused");
    let failing_since: Option<Timestamp> = row.get("failing_since");
    let disabled_at: Option<Timestamp> = row.get("disabled_at");
    let state = match (&disabled_at, paused, &failing_since) {
        (Some(_), _, _) => "disabled",
        (None, true, _) => "paused",
        (None, false, Some(_)) => "failing",
        (None, false, None) => "active",
    };
    Endpoint {
        endpoint_id: row.get("endpoint_id"),
        url: row.get("url"),
        description: row.get("description"),
        event_types: row.get("event_types"),
        state,
        paused,
        max_per_second: row.get("max_per_second"),
        failing_since,
        disabled_at,
        disabled_reason: row.get("disabled_reason"),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
    }
}
