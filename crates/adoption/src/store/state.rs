//! How far the adoption is, and what it found.

use crate::Shape;
use serde::Serialize;
use tokio_postgres::{Client, Error};

const IS_BEGUN: &str = "SELECT to_regclass('adoption.shape') IS NOT NULL";
const SHAPE: &str = "SELECT schema_name, tenant, exchange FROM adoption.shape";
const KEEP_SHAPE: &str =
    "INSERT INTO adoption.shape (schema_name, tenant, exchange) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const DONE_STEPS: &str = "SELECT name FROM adoption.step";
const PROGRESS: &str = "SELECT name, rows_done, is_done FROM adoption.progress ORDER BY name";
const FINDINGS: &str = "SELECT count(*) FROM adoption.finding";
const LIST_FINDINGS: &str = "SELECT table_name, row_id, column_name, value, reason FROM adoption.finding
    WHERE (table_name, row_id, column_name) > ($1, $2, $3) ORDER BY table_name, row_id, column_name LIMIT $4";
const BY_REASON: &str = "SELECT table_name, column_name, reason, count(*) FROM adoption.finding
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 4 DESC, 3";
const HAS_MISSING: &str = "SELECT EXISTS (SELECT FROM adoption.finding WHERE table_name = $1 AND column_name = $2)";
/// References and messages that were listed may have been put right since.
const LOOK_AGAIN_LISTED: &str = "DELETE FROM adoption.finding
    WHERE column_name IN ('borrower_id', 'loan_id', 'payload', 'product', 'name')
      AND NOT EXISTS (SELECT FROM adoption.progress WHERE name = 'references of ' || table_name AND NOT is_done)";
const LOOK_AGAIN_ROWS: &str = "DELETE FROM adoption.progress WHERE name LIKE 'references of %' AND is_done";
/// One number for everybody who adopts this database.
const LOCK: i64 = 0x6164_6f70_7469_6f6e;

pub(crate) async fn prepare_session(client: &Client, lock_timeout_ms: u32) -> Result<(), Error> {
    let settings = format!(
        "SET lock_timeout = {lock_timeout_ms}; SET statement_timeout = 0; SET TimeZone = 'UTC';
         SET application_name = 'onceward adopt'"
    );
    client.batch_execute(&settings).await
}

/// Waits a little: the server may still be about to end a session that was killed.
pub(crate) async fn lock_adoption(client: &Client) -> Result<(), Error> {
    let statement = format!("SET lock_timeout = '15s'; SELECT pg_advisory_lock({LOCK}); SET lock_timeout = '2s'");
    client.batch_execute(&statement).await
}

pub(crate) async fn is_begun(client: &Client) -> Result<bool, Error> {
    Ok(client.query_one(IS_BEGUN, &[]).await?.get(0))
}

pub(crate) async fn shape(client: &Client) -> Result<Option<(String, String, Option<String>)>, Error> {
    Ok(client.query_opt(SHAPE, &[]).await?.map(|row| (row.get(0), row.get(1), row.get(2))))
}

pub(crate) async fn keep_shape(client: &Client, shape: &Shape) -> Result<(), Error> {
    client.execute(KEEP_SHAPE, &[&shape.schema, &shape.tenant.as_str(), &shape.exchange]).await.map(drop)
}

pub(crate) async fn done_steps(client: &Client) -> Result<Vec<String>, Error> {
    Ok(client.query(DONE_STEPS, &[]).await?.iter().map(|row| row.get(0)).collect())
}

/// How far the work on rows is.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Progress {
    pub name: String,
    pub rows_done: i64,
    pub is_done: bool,
}

pub(crate) async fn progress(client: &Client) -> Result<Vec<Progress>, Error> {
    let read = |row: &tokio_postgres::Row| Progress { name: row.get(0), rows_done: row.get(1), is_done: row.get(2) };
    Ok(client.query(PROGRESS, &[]).await?.iter().map(read).collect())
}

/// Statements, and the note that they were run.
pub(crate) fn with_note(sql: &str, name: &str) -> String {
    format!("{sql};\nINSERT INTO adoption.step (name) VALUES ('{name}')")
}

/// Has references looked at again, unless a look at them is under way, and messages tried again.
pub(crate) async fn look_again(client: &mut Client) -> Result<(), Error> {
    let tx = client.transaction().await?;
    tx.execute(LOOK_AGAIN_LISTED, &[]).await?;
    tx.execute(LOOK_AGAIN_ROWS, &[]).await?;
    tx.commit().await
}

pub(crate) async fn count_findings(client: &Client) -> Result<i64, Error> {
    Ok(client.query_one(FINDINGS, &[]).await?.get(0))
}

pub(crate) async fn has_missing(client: &Client, table: &str, column: &str) -> Result<bool, Error> {
    Ok(client.query_one(HAS_MISSING, &[&table, &column]).await?.get(0))
}

/// Something that could not be brought over.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Finding {
    pub table: String,
    pub id: i64,
    pub column: String,
    pub value: Option<String>,
    pub reason: String,
}

/// Up to `limit` of them, after `last`.
pub(crate) async fn findings(client: &Client, last: &Finding, limit: i64) -> Result<Vec<Finding>, Error> {
    let rows = client.query(LIST_FINDINGS, &[&last.table, &last.id, &last.column, &limit]).await?;
    let read = |row: &tokio_postgres::Row| Finding {
        table: row.get(0),
        id: row.get(1),
        column: row.get(2),
        value: row.get(3),
        reason: row.get(4),
    };
    Ok(rows.iter().map(read).collect())
}

/// (table, column, reason, how many).
pub(crate) async fn findings_by_reason(client: &Client) -> Result<Vec<(String, String, String, i64)>, Error> {
    let rows = client.query(BY_REASON, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect())
}
