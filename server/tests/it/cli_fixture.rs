//! Runs commands against a database, and prepares its messages and dead letters.

use crate::support::{migrated_database, run};
use onceward_testkit::TestDb;
use serde_json::{Value, json};
use std::process::Output;
use tokio_postgres::Client;
use uuid::Uuid;

/// The queue of the orders.
pub const QUEUE: &str = "orders.reserve.v1";

/// A database of the program's services, and commands against it.
pub struct CliFixture {
    url: String,
    owner: Client,
    _database: Option<TestDb>,
}

/// The exit code and output of a command.
pub struct CommandOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program prints UTF-8");
        Self {
            code: output.status.code().expect("the command was not killed"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl CommandOutput {
    /// Returns the printed output: one JSON value per line.
    pub fn json(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
    }
}

impl CliFixture {
    pub async fn new() -> Self {
        Self::with_database(migrated_database().await).await
    }

    pub async fn with_database(database: TestDb) -> Self {
        let owner = database.owner().await;
        Self { url: database.url(), owner, _database: Some(database) }
    }

    /// Uses a database that another fixture owns.
    pub fn on_database(url: String, owner: Client) -> Self {
        Self { url, owner, _database: None }
    }

    /// Returns the URL of the database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs a command as olga.
    pub async fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_with(args, &[("USER", "olga")]).await
    }

    pub async fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
        let variables: Vec<(&str, &str)> =
            variables.iter().copied().chain([("DATABASE_URL", self.url.as_str())]).collect();
        CommandOutput::from(run(args, &variables).await)
    }

    /// Turns a message into a dead letter, as its consumer would; returns the letter's id.
    pub async fn insert_dead_letter(&self, tenant: &str, sku: &str) -> i64 {
        self.insert_dead_letter_in(QUEUE, tenant, sku, "attempts_exhausted").await
    }

    pub async fn insert_dead_letter_in(&self, queue: &str, tenant: &str, sku: &str, reason: &str) -> i64 {
        let id = Uuid::now_v7();
        let payload = json!({"orderId": id, "sku": sku, "quantity": 1});
        let message = json!({
            "id": id, "event_type": "order.placed", "version": 1, "topic": format!("orders.events:tenant.{tenant}.order.placed"),
            "correlation_id": format!("story-{sku}"), "headers": null, "payload": payload, "occurred_at": "2026-11-16T00:00:00Z",
        });
        let letter = json!([{
            "event_id": id, "tenant_id": tenant, "queue": queue, "consumer": "reserve-stock", "event_type": "order.placed",
            "version": 1, "ordering_key": sku, "correlation_id": format!("story-{sku}"), "reason": reason, "attempts": 3,
            "first_error": "the first error", "last_error": "the last error", "message": message,
        }]);
        self.owner.execute("SELECT onceward.bury($1)", &[&letter]).await.expect("the dead letter is inserted");
        self.owner.query_one("SELECT max(id) FROM onceward.dead_letters", &[]).await.expect("a dead letter").get(0)
    }

    /// Publishes an order from SQL.
    pub async fn publish(&self, tenant: &str, sku: &str) {
        let payload = json!({"orderId": Uuid::now_v7(), "sku": sku, "quantity": 1});
        let topic = format!("orders.events:tenant.{tenant}.order.placed");
        let statement = "SELECT onceward.enqueue($1, $2, 'order.placed.v1', $3)";
        self.owner.execute(statement, &[&tenant, &topic, &payload]).await.expect("the message is published");
    }

    /// Returns the text that a query returns.
    pub async fn text(&self, sql: &str) -> String {
        self.owner.query_one(sql, &[]).await.expect("a text").get(0)
    }

    pub async fn count(&self, sql: &str) -> i64 {
        self.owner.query_one(sql, &[]).await.expect("a count").get(0)
    }
}
