//! Work on rows: one call is one transaction.

use tokio_postgres::{Client, Error};

const BACKFILL: &str = "SELECT adoption.backfill($1, $2, $3)";
const LOOK_FOR_MISSING: &str = "SELECT adoption.look_for_missing($1, $2, $3, $4, $5)";
const DRAIN: &str = "SELECT adoption.drain($1, $2)";

/// `false`: there are no more rows.
pub(crate) async fn backfill(client: &Client, schema: &str, table: &str, batch: i32) -> Result<bool, Error> {
    Ok(client.query_one(BACKFILL, &[&schema, &table, &batch]).await?.get(0))
}

/// `false`: there are no more rows.
pub(crate) async fn look_for_missing(
    client: &Client,
    schema: &str,
    table: &str,
    column: &str,
    target: &str,
    batch: i32,
) -> Result<bool, Error> {
    Ok(client.query_one(LOOK_FOR_MISSING, &[&schema, &table, &column, &target, &batch]).await?.get(0))
}

/// How many messages were looked at.
pub(crate) async fn drain(client: &Client, schema: &str, batch: i32) -> Result<i32, Error> {
    Ok(client.query_one(DRAIN, &[&schema, &batch]).await?.get(0))
}
