//! What the database has.

use super::table_name;
use tokio_postgres::{Client, Error};

/// Columns that are used: (table, column, type). A table may go by its new name already.
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
/// An index without its constraint: a run ended while it was made, or right after.
const UNFINISHED_KEY: &str = "SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind = 'i'
      AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = c.oid))";

/// What the legacy tables lack, in words.
pub(crate) async fn missing_columns(client: &Client, schema: &str) -> Result<Vec<String>, Error> {
    let mut missing = Vec::new();
    for (table, column, wanted) in COLUMNS {
        let found = client.query_opt(TYPE_OF, &[&table_name(schema, table), column]).await?;
        let found: Option<String> = found.map(|row| row.get(0));
        let fits = found.as_deref().is_some_and(|found| match *wanted {
            "text" => matches!(found, "text" | "character varying"),
            "json" => matches!(found, "json" | "jsonb"),
            "timestamp" => found.starts_with("timestamp"),
            "integer or bigint" => matches!(found, "integer" | "bigint"),
            exactly => found == exactly,
        });
        if !fits {
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

/// The old program has a foreign key there.
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

/// Removes what a run has left that ended while it made the index.
pub(crate) async fn drop_unfinished_key(client: &Client, schema: &str, table: &str) -> Result<(), Error> {
    let name = format!("{table}_tenant_key");
    if client.query_one(UNFINISHED_KEY, &[&schema, &name]).await?.get(0) {
        let statement = format!("DROP INDEX CONCURRENTLY IF EXISTS {}", table_name(schema, &name));
        beside_writers(client, &statement).await?;
    }
    Ok(())
}

pub(crate) async fn make_key(client: &Client, schema: &str, table: &str) -> Result<(), Error> {
    let table_name = table_name(schema, table);
    let statement = format!("CREATE UNIQUE INDEX CONCURRENTLY \"{table}_tenant_key\" ON {table_name} (tenant_id, id)");
    beside_writers(client, &statement).await
}

/// It waits for old transactions, but nobody waits for it, so it may take its time.
async fn beside_writers(client: &Client, statement: &str) -> Result<(), Error> {
    client.batch_execute("SET lock_timeout = '300s'").await?;
    let made = client.batch_execute(statement).await;
    client.batch_execute("SET lock_timeout = '2s'").await?;
    made
}

/// Looks at the rows that were there before, beside the writers.
pub(crate) async fn validate(client: &Client, schema: &str, table: &str) -> Result<(), Error> {
    let table_name = table_name(schema, table);
    let statement = format!("ALTER TABLE {table_name} VALIDATE CONSTRAINT \"{table}_tenant_reference\"");
    client.batch_execute(&statement).await
}
