//! Processes rows in batches: one call is one transaction.

use tokio_postgres::{Client, Error};

const BACKFILL: &str = "SELECT adoption.backfill($1, $2, $3)";
const FIND_MISSING_REFERENCES: &str = "SELECT adoption.look_for_missing($1, $2, $3, $4, $5)";
const DRAIN: &str = "SELECT adoption.drain($1, $2)";

/// Fills `amount_minor` of the next rows. Returns `false` if there are no more.
pub(crate) async fn backfill(client: &Client, schema: &str, table: &str, batch: i32) -> Result<bool, Error> {
    Ok(client.query_one(BACKFILL, &[&schema, &table, &batch]).await?.get(0))
}

/// Lists those of the next rows that refer to a missing row. Returns `false` if there are no more rows.
pub(crate) async fn find_missing_references(
    client: &Client,
    schema: &str,
    table: &str,
    column: &str,
    target: &str,
    batch: i32,
) -> Result<bool, Error> {
    Ok(client.query_one(FIND_MISSING_REFERENCES, &[&schema, &table, &column, &target, &batch]).await?.get(0))
}

/// Publishes the next waiting messages of the legacy outbox. Returns the number of messages processed.
pub(crate) async fn drain(client: &Client, schema: &str, batch: i32) -> Result<i32, Error> {
    Ok(client.query_one(DRAIN, &[&schema, &batch]).await?.get(0))
}
