//! All SQL of the cases: the service's effects, and the platform's own tables and views.

use onceward::{DbError, Migration, Migrations, Received, Tx};
use serde_json::Value;
use std::time::Duration;
use tokio_postgres::Client;

pub(super) const MIGRATIONS: Migrations = Migrations {
    schema: "conformance",
    steps: &[Migration {
        name: "0001_effect",
        sql: "CREATE TABLE conformance.effect (
                  id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                  tenant_id text        NOT NULL,
                  queue     text        NOT NULL,
                  name      text        NOT NULL,
                  number    bigint      NOT NULL,
                  attempt   int         NOT NULL,
                  envelope  jsonb       NOT NULL,
                  trace     text,
                  trace_state text,
                  made_at   timestamptz NOT NULL DEFAULT clock_timestamp());
              SELECT onceward_meta.protect('conformance.effect')",
    }],
};

pub(super) async fn write_effect<E>(
    tx: &Tx,
    queue: &str,
    name: &str,
    number: i64,
    received: &Received<'_, E>,
) -> Result<(), DbError> {
    let envelope = received.envelope.to_value().expect("a received envelope can be serialized");
    let trace = received.envelope.trace.as_ref().map(|trace| trace.trace_id());
    let trace_state = received.envelope.trace.as_ref().and_then(|trace| trace.tracestate());
    let attempt = i32::try_from(received.attempt).unwrap_or(i32::MAX);
    let tenant = received.envelope.tenant_id.as_str();
    tx.execute(
        "INSERT INTO conformance.effect (tenant_id, queue, name, number, attempt, envelope, trace, trace_state)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[&tenant, &queue, &name, &number, &attempt, &envelope, &trace, &trace_state],
    )
    .await?;
    Ok(())
}

/// A committed effect.
#[derive(Clone, Debug)]
pub(super) struct EffectRow {
    pub(super) tenant: String,
    pub(super) name: String,
    pub(super) number: i64,
    pub(super) attempt: i32,
    pub(super) envelope: Value,
    pub(super) trace: Option<String>,
    pub(super) trace_state: Option<String>,
}

/// Returns the effects of a queue, in the order in which they were written.
pub(super) async fn effects(owner: &Client, queue: &str) -> Vec<EffectRow> {
    let sql = "SELECT tenant_id, name, number, attempt, envelope, trace, trace_state FROM conformance.effect
               WHERE queue = $1 ORDER BY id";
    let rows = owner.query(sql, &[&queue]).await.expect("the owner can read every row");
    let effect = |row: &tokio_postgres::Row| EffectRow {
        tenant: row.get(0),
        name: row.get(1),
        number: row.get(2),
        attempt: row.get(3),
        envelope: row.get(4),
        trace: row.get(5),
        trace_state: row.get(6),
    };
    rows.iter().map(effect).collect()
}

/// Returns when a tenant's last effect of a queue was written, in seconds of the database's clock.
pub(super) async fn last_effect(owner: &Client, queue: &str, tenant: &str) -> f64 {
    let sql = "SELECT extract(epoch FROM max(made_at))::float8 FROM conformance.effect
               WHERE queue = $1 AND tenant_id = $2";
    owner.query_one(sql, &[&queue, &tenant]).await.expect("the owner can read every row").get(0)
}

/// Returns how long after `moment` an effect was written, by the database's clock.
pub(super) async fn elapsed_until_effect(owner: &Client, name: &str, moment: f64) -> Duration {
    let sql = "SELECT extract(epoch FROM made_at)::float8 FROM conformance.effect WHERE name = $1";
    let written: f64 = owner.query_one(sql, &[&name]).await.expect("exactly one effect with this name").get(0);
    Duration::try_from_secs_f64(written - moment).unwrap_or_default()
}

/// Returns the database's time.
pub(super) async fn now(owner: &Client) -> f64 {
    let sql = "SELECT extract(epoch FROM clock_timestamp())::float8";
    owner.query_one(sql, &[]).await.expect("the database returns its time").get(0)
}

/// A dead letter.
#[derive(Debug)]
pub(super) struct DeadLetterRecord {
    pub(super) name: Option<String>,
    pub(super) reason: String,
    pub(super) attempts: i32,
    pub(super) last_error: Option<String>,
}

pub(super) async fn dead_letters(owner: &Client) -> Vec<DeadLetterRecord> {
    let sql = "SELECT message->'payload'->>'name', reason, attempts, last_error FROM onceward.dead_letters ORDER BY id";
    let rows = owner.query(sql, &[]).await.expect("the owner can read every row");
    let dead = |row: &tokio_postgres::Row| DeadLetterRecord {
        name: row.get(0),
        reason: row.get(1),
        attempts: row.get(2),
        last_error: row.get(3),
    };
    rows.iter().map(dead).collect()
}

/// Returns the number of messages of a queue that have arrived and are not settled.
pub(super) async fn depth(owner: &Client, queue: &str) -> i64 {
    let sql = "SELECT depth FROM onceward.queue_stats(10000) WHERE queue = $1";
    owner.query_one(sql, &[&queue]).await.expect("the queue exists").get(0)
}

/// Describes everything that waits in the outbox, in a queue or for a retry. Empty if nothing does.
pub(super) async fn pending_work(owner: &Client) -> String {
    let sql = "SELECT coalesce(string_agg(what, ', '), '') FROM (
                   SELECT depth || ' in ' || queue AS what FROM onceward.queue_stats(10000) WHERE depth > 0
                   UNION ALL
                   SELECT concat_ws(' ', state, message->'payload'->>'name', last_error) FROM onceward.deferred) x";
    owner.query_one(sql, &[]).await.expect("the database responds").get(0)
}

/// Returns the number of deferred messages.
pub(super) async fn deferred_count(owner: &Client) -> i64 {
    owner.query_one("SELECT count(*) FROM onceward.deferred", &[]).await.expect("the database responds").get(0)
}

/// Returns the attempts of messages that are deferred without a failure; `None` if none are.
pub(super) async fn attempts_of_deferred(owner: &Client) -> Option<i32> {
    let sql = "SELECT max(attempts) FROM onceward.deferred WHERE state IN ('waiting', 'unknown')";
    owner.query_one(sql, &[]).await.expect("the database responds").get(0)
}

/// Publishes with SQL, as a service in another language does.
pub(super) async fn enqueue(owner: &Client, tenant: &str, topic: &str, event_type: &str, payload: &Value) {
    owner
        .execute("SELECT onceward.enqueue($1, $2, $3, $4)", &[&tenant, &topic, &event_type, payload])
        .await
        .expect("the message is accepted");
}

/// Replaces the payload of the one stored message whose job has this name.
pub(super) async fn overwrite_payload(owner: &Client, name: &str, payload: &str) {
    let sql = "UPDATE onceward.message_log SET payload = $2::text::json WHERE payload->>'name' = $1";
    assert_eq!(owner.execute(sql, &[&name, &payload]).await.expect("the owner can write"), 1);
}
