//! All SQL of the cases: the service's effects, and what the platform shows of its work.

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
    let envelope = received.envelope.to_value().expect("a message that came can be written");
    let trace = received.envelope.trace.as_ref().map(|trace| trace.trace_id());
    let attempt = i32::try_from(received.attempt).unwrap_or(i32::MAX);
    let tenant = received.envelope.tenant_id.as_str();
    tx.execute(
        "INSERT INTO conformance.effect (tenant_id, queue, name, number, attempt, envelope, trace)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[&tenant, &queue, &name, &number, &attempt, &envelope, &trace],
    )
    .await?;
    Ok(())
}

/// A committed effect.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    pub(super) tenant: String,
    pub(super) name: String,
    pub(super) number: i64,
    pub(super) attempt: i32,
    pub(super) envelope: Value,
    pub(super) trace: Option<String>,
}

/// The effects of a queue, in the order in which they were made.
pub(super) async fn effects(owner: &Client, queue: &str) -> Vec<Effect> {
    let sql = "SELECT tenant_id, name, number, attempt, envelope, trace FROM conformance.effect
               WHERE queue = $1 ORDER BY id";
    let rows = owner.query(sql, &[&queue]).await.expect("the owner reads everything");
    let effect = |row: &tokio_postgres::Row| Effect {
        tenant: row.get(0),
        name: row.get(1),
        number: row.get(2),
        attempt: row.get(3),
        envelope: row.get(4),
        trace: row.get(5),
    };
    rows.iter().map(effect).collect()
}

/// How long after a moment an effect was made, by the database's clock.
pub(super) async fn made_after(owner: &Client, name: &str, moment: f64) -> Duration {
    let sql = "SELECT extract(epoch FROM made_at)::float8 FROM conformance.effect WHERE name = $1";
    let made: f64 = owner.query_one(sql, &[&name]).await.expect("one such effect").get(0);
    Duration::try_from_secs_f64(made - moment).unwrap_or_default()
}

/// The database's clock.
pub(super) async fn now(owner: &Client) -> f64 {
    let sql = "SELECT extract(epoch FROM clock_timestamp())::float8";
    owner.query_one(sql, &[]).await.expect("a clock").get(0)
}

/// A dead letter.
#[derive(Debug)]
pub(super) struct Dead {
    pub(super) name: Option<String>,
    pub(super) reason: String,
    pub(super) attempts: i32,
    pub(super) last_error: Option<String>,
}

pub(super) async fn dead_letters(owner: &Client) -> Vec<Dead> {
    let sql = "SELECT message->'payload'->>'name', reason, attempts, last_error FROM onceward.dead_letters ORDER BY id";
    let rows = owner.query(sql, &[]).await.expect("the owner reads everything");
    let dead = |row: &tokio_postgres::Row| Dead {
        name: row.get(0),
        reason: row.get(1),
        attempts: row.get(2),
        last_error: row.get(3),
    };
    rows.iter().map(dead).collect()
}

/// Messages of a queue that have come and are not done with.
pub(super) async fn depth(owner: &Client, queue: &str) -> i64 {
    let sql = "SELECT depth FROM onceward.queue_stats(10000) WHERE queue = $1";
    owner.query_one(sql, &[&queue]).await.expect("such a queue").get(0)
}

/// What waits anywhere: in the outbox, in a queue, for a retry. Empty if nothing does.
pub(super) async fn waiting(owner: &Client) -> String {
    let sql = "SELECT coalesce(string_agg(what, ', '), '') FROM (
                   SELECT depth || ' in ' || queue AS what FROM onceward.queue_stats(10000) WHERE depth > 0
                   UNION ALL
                   SELECT concat_ws(' ', state, message->'payload'->>'name', last_error) FROM onceward.deferred) x";
    owner.query_one(sql, &[]).await.expect("an answer").get(0)
}

/// Messages that wait for a retry.
pub(super) async fn put_aside(owner: &Client) -> i64 {
    owner.query_one("SELECT count(*) FROM onceward.deferred", &[]).await.expect("a count").get(0)
}

/// How often messages that are put aside without a failure have been tried; none if there are none.
pub(super) async fn attempts_of_waiting(owner: &Client) -> Option<i32> {
    let sql = "SELECT max(attempts) FROM onceward.deferred WHERE state = 'waiting'";
    owner.query_one(sql, &[]).await.expect("an answer").get(0)
}

/// Publishes as a team in another language would.
pub(super) async fn enqueue(owner: &Client, tenant: &str, topic: &str, event_type: &str, payload: &Value) {
    owner
        .execute("SELECT onceward.enqueue($1, $2, $3, $4)", &[&tenant, &topic, &event_type, payload])
        .await
        .expect("it is accepted");
}
