//! The progress of the adoption and its findings.

use crate::LegacyMapping;
use serde::Serialize;
use tokio_postgres::{Client, Error};

const HAS_STARTED: &str = "SELECT to_regclass('adoption.shape') IS NOT NULL";
const MAPPING: &str = "SELECT schema_name, tenant, exchange FROM adoption.shape";
const INSERT_MAPPING: &str =
    "INSERT INTO adoption.shape (schema_name, tenant, exchange) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const DONE_STEPS: &str = "SELECT name FROM adoption.step";
const BATCH_PROGRESS: &str = "SELECT name, rows_done, is_done FROM adoption.progress ORDER BY name";
const COUNT_FINDINGS: &str = "SELECT count(*) FROM adoption.finding";
const LIST_FINDINGS: &str = "SELECT table_name, row_id, column_name, value, reason FROM adoption.finding
    WHERE (table_name, row_id, column_name) > ($1, $2, $3) ORDER BY table_name, row_id, column_name LIMIT $4";
const FINDINGS_BY_REASON: &str = "SELECT table_name, column_name, reason, count(*) FROM adoption.finding
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 4 DESC, 3";
const HAS_FINDINGS: &str = "SELECT EXISTS (SELECT FROM adoption.finding WHERE table_name = $1 AND column_name = $2)";
/// Listed references and messages may have been corrected since, so each run checks them again.
const CLEAR_RECHECKED_FINDINGS: &str = "DELETE FROM adoption.finding
    WHERE column_name IN ('borrower_id', 'loan_id', 'payload', 'product', 'name')
      AND NOT EXISTS (SELECT FROM adoption.progress WHERE name = 'references of ' || table_name AND NOT is_done)";
const RESTART_REFERENCE_CHECKS: &str = "DELETE FROM adoption.progress WHERE name LIKE 'references of %' AND is_done";
/// The advisory lock that every run holds.
const LOCK: i64 = 0x6164_6f70_7469_6f6e;

pub(crate) async fn prepare_session(client: &Client, lock_timeout_ms: u32) -> Result<(), Error> {
    let settings = format!(
        "SET lock_timeout = {lock_timeout_ms}; SET statement_timeout = 0; SET TimeZone = 'UTC';
         SET application_name = 'onceward adopt'"
    );
    client.batch_execute(&settings).await
}

/// Takes the advisory lock. Waits up to 15 seconds, because the server may still be ending a session that was killed.
pub(crate) async fn lock_adoption(client: &Client) -> Result<(), Error> {
    let statement = format!("SET lock_timeout = '15s'; SELECT pg_advisory_lock({LOCK}); SET lock_timeout = '2s'");
    client.batch_execute(&statement).await
}

pub(crate) async fn has_started(client: &Client) -> Result<bool, Error> {
    Ok(client.query_one(HAS_STARTED, &[]).await?.get(0))
}

pub(crate) async fn mapping(client: &Client) -> Result<Option<(String, String, Option<String>)>, Error> {
    Ok(client.query_opt(MAPPING, &[]).await?.map(|row| (row.get(0), row.get(1), row.get(2))))
}

pub(crate) async fn insert_mapping(client: &Client, mapping: &LegacyMapping) -> Result<(), Error> {
    client.execute(INSERT_MAPPING, &[&mapping.schema, &mapping.tenant.as_str(), &mapping.exchange]).await.map(drop)
}

pub(crate) async fn done_steps(client: &Client) -> Result<Vec<String>, Error> {
    Ok(client.query(DONE_STEPS, &[]).await?.iter().map(|row| row.get(0)).collect())
}

/// The progress of a step that processes rows in batches.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BatchProgress {
    pub name: String,
    pub rows_done: i64,
    pub is_done: bool,
}

pub(crate) async fn batch_progress(client: &Client) -> Result<Vec<BatchProgress>, Error> {
    let read =
        |row: &tokio_postgres::Row| BatchProgress { name: row.get(0), rows_done: row.get(1), is_done: row.get(2) };
    Ok(client.query(BATCH_PROGRESS, &[]).await?.iter().map(read).collect())
}

/// Appends the statement that records the step as done.
pub(crate) fn with_step_record(sql: &str, name: &str) -> String {
    format!("{sql};\nINSERT INTO adoption.step (name) VALUES ('{name}')")
}

/// Deletes the findings that this run checks again: messages, and references unless their check is in progress.
pub(crate) async fn clear_rechecked_findings(client: &mut Client) -> Result<(), Error> {
    let tx = client.transaction().await?;
    tx.execute(CLEAR_RECHECKED_FINDINGS, &[]).await?;
    tx.execute(RESTART_REFERENCE_CHECKS, &[]).await?;
    tx.commit().await
}

pub(crate) async fn count_findings(client: &Client) -> Result<i64, Error> {
    Ok(client.query_one(COUNT_FINDINGS, &[]).await?.get(0))
}

pub(crate) async fn has_findings(client: &Client, table: &str, column: &str) -> Result<bool, Error> {
    Ok(client.query_one(HAS_FINDINGS, &[&table, &column]).await?.get(0))
}

/// A value that could not be migrated.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct AdoptionFinding {
    pub table: String,
    pub id: i64,
    pub column: String,
    pub value: Option<String>,
    pub reason: String,
}

/// Returns up to `limit` findings after `last`.
pub(crate) async fn findings(
    client: &Client,
    last: &AdoptionFinding,
    limit: i64,
) -> Result<Vec<AdoptionFinding>, Error> {
    let rows = client.query(LIST_FINDINGS, &[&last.table, &last.id, &last.column, &limit]).await?;
    let read = |row: &tokio_postgres::Row| AdoptionFinding {
        table: row.get(0),
        id: row.get(1),
        column: row.get(2),
        value: row.get(3),
        reason: row.get(4),
    };
    Ok(rows.iter().map(read).collect())
}

/// Returns the findings as (table, column, reason, count).
pub(crate) async fn findings_by_reason(client: &Client) -> Result<Vec<(String, String, String, i64)>, Error> {
    let rows = client.query(FINDINGS_BY_REASON, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect())
}
