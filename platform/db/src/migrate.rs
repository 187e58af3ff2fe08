//! Migrations: each service has its own schema; steps are checksummed and safe to run from many instances.

use crate::{APP_ROLE, DbConfig, DbError, error::describe, pool::wants_tls, tls};
use onceward_envelope::fingerprint_hex;
use tokio_postgres::Client;

/// One migration step, written once and never edited after it has shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The name, as in `0001_what_it_does`; steps run in the order of their names.
    pub name: &'static str,
    /// The statements, which run in one transaction.
    pub sql: &'static str,
}

/// The steps of one schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrations {
    /// The PostgreSQL schema that these steps own.
    pub schema: &'static str,
    /// The steps, in order.
    pub steps: &'static [Migration],
}

/// One lock for all instances: its holder migrates, and the others wait and then have nothing to do.
const MIGRATION_LOCK: i64 = 0x6f6e_6365_7761_7264;

const BOOTSTRAP: &str = include_str!("bootstrap.sql");

/// Applies the missing steps, in the given order of schemas. Returns the names of the steps it applied.
pub async fn migrate(config: &DbConfig, all: &[Migrations]) -> Result<Vec<String>, DbError> {
    let mut client = owner(config).await?;
    client.batch_execute("SET lock_timeout = '300s'; SET statement_timeout = 0").await?;
    client.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await?;
    client.batch_execute(BOOTSTRAP).await?;
    let mut applied = Vec::new();
    for migrations in all {
        migrate_schema(&mut client, migrations, &mut applied).await?;
    }
    unprotected_tables(&client, all).await?;
    client.execute("SELECT pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await?;
    Ok(applied)
}

/// Opens a connection as the owner, for migrations and for creating databases.
pub async fn owner(config: &DbConfig) -> Result<Client, DbError> {
    let driver = config.driver_config()?;
    let unreachable = |error: tokio_postgres::Error| match error.code() {
        Some(_) => DbError::from(error),
        None => DbError::Unavailable(describe(&error)),
    };
    if wants_tls(&driver) {
        let (client, connection) = driver.connect(tls::connector()?).await.map_err(unreachable)?;
        tokio::spawn(connection);
        Ok(client)
    } else {
        let (client, connection) = driver.connect(tokio_postgres::NoTls).await.map_err(unreachable)?;
        tokio::spawn(connection);
        Ok(client)
    }
}

async fn migrate_schema(
    client: &mut Client,
    migrations: &Migrations,
    applied: &mut Vec<String>,
) -> Result<(), DbError> {
    let known = client
        .query("SELECT name, checksum FROM onceward_meta.migration WHERE schema_name = $1", &[&migrations.schema])
        .await?;
    for step in migrations.steps {
        let checksum = fingerprint_hex(step.sql.as_bytes());
        match known.iter().find(|row| row.get::<_, &str>(0) == step.name) {
            Some(row) if row.get::<_, &str>(1) == checksum => {}
            Some(_) => {
                return Err(DbError::Migration(format!(
                    "migration {}/{} was changed after it had been applied; restore its text and put the change into a new step",
                    migrations.schema, step.name
                )));
            }
            None => {
                apply(client, migrations.schema, step, &checksum).await?;
                applied.push(format!("{}/{}", migrations.schema, step.name));
            }
        }
    }
    Ok(())
}

async fn apply(client: &mut Client, schema: &str, step: &Migration, checksum: &str) -> Result<(), DbError> {
    let tx = client.transaction().await?;
    tx.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}; GRANT USAGE ON SCHEMA {schema} TO {APP_ROLE}"))
        .await?;
    tx.batch_execute(step.sql).await.map_err(|error| {
        DbError::Migration(format!(
            "migration {schema}/{} failed and was rolled back: {}",
            step.name,
            DbError::from(error)
        ))
    })?;
    tx.execute(
        "INSERT INTO onceward_meta.migration (schema_name, name, checksum) VALUES ($1, $2, $3)",
        &[&schema, &step.name, &checksum],
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

/// Fails if a tenant table has no row-level security, because the next query without a filter would leak its rows.
async fn unprotected_tables(client: &Client, all: &[Migrations]) -> Result<(), DbError> {
    let schemas: Vec<&str> = all.iter().map(|migrations| migrations.schema).collect();
    let rows = client
        .query(
            "SELECT format('%I.%I', n.nspname, c.relname)
             FROM pg_class c
             JOIN pg_namespace n ON n.oid = c.relnamespace
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
             WHERE n.nspname = ANY($1) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
               AND NOT (c.relrowsecurity AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid))
             ORDER BY 1",
            &[&schemas],
        )
        .await?;
    if rows.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    Err(DbError::Migration(format!(
        "these tables have a tenant_id but no row-level security: {}; call onceward_meta.protect('schema.table') in their migration",
        names.join(", ")
    )))
}
