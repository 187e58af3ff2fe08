//! Queries the catalog, and creates keys and constraints.

use super::table_name;
use tokio_postgres::{Client, Error};

/// The required columns as (table, column, type). After the rename, `borrowers` is a view with the same columns.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("borrowers", "id", "integer or bigint"),
    ("borrowers", "name", "text"),
    ("borrowers", "email", "text"),
    ("loans", "id", "integer or bigint"),
    ("loans", "borrower_id", "integer or bigint"),
    ("loans", "amount", "double precision"),
    ("loans", "rate", "double precision"),
    ("loans", "term", "integer or bigint"),
    ("loans", "status", "text"),
    ("payments", "id", "integer or bigint"),
    ("payments", "loan_id", "integer or bigint"),
    ("payments", "amount", "double precision"),
    ("outbox", "id", "integer or bigint"),
    ("outbox", "topic", "text"),
    ("outbox", "payload", "json"),
    ("outbox", "published_at", "timestamp"),
];
const TYPE_OF: &str = "SELECT format_type(atttypid, NULL) FROM pg_attribute
    WHERE attrelid = to_regclass($1) AND attname = $2 AND attnum > 0 AND NOT attisdropped";
const HAS_ENQUEUE: &str = "SELECT to_regproc('onceward.enqueue') IS NOT NULL";
const HAS_EXCHANGE: &str = "SELECT EXISTS (SELECT FROM onceward.exchange WHERE name = $1)";
const HAS_REFERENCE: &str = "SELECT EXISTS (SELECT FROM pg_constraint AS c
    WHERE c.contype = 'f' AND c.conrelid = to_regclass($1) AND c.confrelid = to_regclass($3)
      AND c.conkey = ARRAY[(SELECT attnum FROM pg_attribute WHERE attrelid = c.conrelid AND attname = $2)])";
const HAS_CONSTRAINT: &str =
    "SELECT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass($1) AND conname = $2)";
/// Finds an index without its constraint: a run was interrupted while or right after creating it.
const UNFINISHED_KEY: &str = "SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind = 'i'
      AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = c.oid))";

/// Returns a description of every required column that is missing or has another type.
pub(crate) async fn missing_columns(client: &Client, schema: &str) -> Result<Vec<String>, Error> {
    let mut missing = Vec::new();
    for (table, column, wanted) in COLUMNS {
        let found = client.query_opt(TYPE_OF, &[&table_name(schema, table), column]).await?;
        let found: Option<String> = found.map(|row| row.get(0));
        let matches = found.as_deref().is_some_and(|found| match *wanted {
            "text" => matches!(found, "text" | "character varying"),
            "json" => matches!(found, "json" | "jsonb"),
            "timestamp" => found.starts_with("timestamp"),
            "integer or bigint" => matches!(found, "integer" | "bigint"),
            exact => found == exact,
        });
        if !matches {
            let found = found.map_or_else(String::new, |found| format!(", not {found}"));
            missing.push(format!("{schema}.{table}.{column} as {wanted}{found}"));
        }
    }
    Ok(missing)
}

pub(crate) async fn has_enqueue(client: &Client) -> Result<bool, Error> {
    Ok(client.query_one(HAS_ENQUEUE, &[]).await?.get(0))
}

pub(crate) async fn has_exchange(client: &Client, exchange: &str) -> Result<bool, Error> {
    Ok(client.query_one(HAS_EXCHANGE, &[&exchange]).await?.get(0))
}

/// Returns whether the legacy schema has a foreign key on this column.
pub(crate) async fn has_reference(
    client: &Client,
    schema: &str,
    table: &str,
    column: &str,
    target: &str,
) -> Result<bool, Error> {
    let (table, target) = (table_name(schema, table), table_name(schema, target));
    Ok(client.query_one(HAS_REFERENCE, &[&table, &column, &target]).await?.get(0))
}

pub(crate) async fn has_constraint(client: &Client, schema: &str, table: &str, name: &str) -> Result<bool, Error> {
    Ok(client.query_one(HAS_CONSTRAINT, &[&table_name(schema, table), &name]).await?.get(0))
}

/// Drops an index that an interrupted run has left without its constraint.
pub(crate) async fn drop_unfinished_key(client: &Client, schema: &str, table: &str) -> Result<(), Error> {
    let name = format!("{table}_tenant_key");
    if client.query_one(UNFINISHED_KEY, &[&schema, &name]).await?.get(0) {
        let statement = format!("DROP INDEX CONCURRENTLY IF EXISTS {}", table_name(schema, &name));
        run_concurrently(client, &statement).await?;
    }
    Ok(())
}

pub(crate) async fn create_key(client: &Client, schema: &str, table: &str) -> Result<(), Error> {
    let table_name = table_name(schema, table);
    let statement = format!("CREATE UNIQUE INDEX CONCURRENTLY \"{table}_tenant_key\" ON {table_name} (tenant_id, id)");
    run_concurrently(client, &statement).await
}

/// Runs a CONCURRENTLY statement. It waits for older transactions but blocks nobody, so its lock timeout is long.
async fn run_concurrently(client: &Client, statement: &str) -> Result<(), Error> {
    client.batch_execute("SET lock_timeout = '300s'").await?;
    let result = client.batch_execute(statement).await;
    client.batch_execute("SET lock_timeout = '2s'").await?;
    result
}

/// Checks the existing rows against the foreign key, without blocking writers.
pub(crate) async fn validate(client: &Client, schema: &str, table: &str) -> Result<(), Error> {
    let table_name = table_name(schema, table);
    let statement = format!("ALTER TABLE {table_name} VALIDATE CONSTRAINT \"{table}_tenant_reference\"");
    client.batch_execute(&statement).await
}
