//! Dead letters for the commands that deal with them.

use crate::support::{migrated_database, run};
use onceward_testkit::TestDb;
use serde_json::{Value, json};
use std::process::Output;
use tokio_postgres::Client;
use uuid::Uuid;

pub const QUEUE: &str = "orders.reserve.v1";

/// A database of the program's services, and commands against it.
pub struct Desk {
    url: String,
    owner: Client,
    _database: Option<TestDb>,
}

/// How a command ended, and what it said.
pub struct Ended {
    pub code: i32,
    pub printed: String,
    pub said: String,
}

impl Ended {
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program prints UTF-8");
        Self {
            code: output.status.code().expect("it ended by itself"),
            printed: text(output.stdout),
            said: text(output.stderr),
        }
    }

    /// What was printed: one JSON value a line.
    pub fn json(&self) -> Vec<Value> {
        self.printed.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
    }
}

impl Desk {
    pub async fn new() -> Self {
        Self::on(migrated_database().await).await
    }

    pub async fn on(database: TestDb) -> Self {
        let owner = database.owner().await;
        Self { url: database.url(), owner, _database: Some(database) }
    }

    /// On a database that is somebody else's.
    pub fn at(url: String, owner: Client) -> Self {
        Self { url, owner, _database: None }
    }

    /// Runs a command as olga.
    pub async fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, &[("USER", "olga")]).await
    }

    pub async fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Ended {
        let variables: Vec<(&str, &str)> =
            variables.iter().copied().chain([("DATABASE_URL", self.url.as_str())]).collect();
        Ended::of(run(args, &variables).await)
    }

    /// Puts a message away as its consumer would; gives the letter's id.
    pub async fn bury(&self, tenant: &str, sku: &str) -> i64 {
        self.bury_in(QUEUE, tenant, sku, "attempts_exhausted").await
    }

    pub async fn bury_in(&self, queue: &str, tenant: &str, sku: &str, reason: &str) -> i64 {
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
        self.owner.execute("SELECT onceward.bury($1)", &[&letter]).await.expect("it is put away");
        self.owner.query_one("SELECT max(id) FROM onceward.dead_letters", &[]).await.expect("a letter").get(0)
    }

    /// Publishes an order from SQL.
    pub async fn publish(&self, tenant: &str, sku: &str) {
        let payload = json!({"orderId": Uuid::now_v7(), "sku": sku, "quantity": 1});
        let topic = format!("orders.events:tenant.{tenant}.order.placed");
        let statement = "SELECT onceward.enqueue($1, $2, 'order.placed.v1', $3)";
        self.owner.execute(statement, &[&tenant, &topic, &payload]).await.expect("it is accepted");
    }

    pub async fn count(&self, sql: &str) -> i64 {
        self.owner.query_one(sql, &[]).await.expect("a count").get(0)
    }
}
