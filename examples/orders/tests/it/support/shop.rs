//! The example inside the test's own process.

use super::{api::Api, bus::Bus};
use onceward_example_orders::service;
use onceward_testkit::{TestPlatform, eventually};
use serde_json::json;
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// Everything a command of this service can write to.
const WRITTEN_TABLES: &[&str] = &[
    "orders.customer_order",
    "orders.stock",
    "onceward.message_log",
    "onceward.message_key",
    "onceward.deferred",
    "onceward.dead_letters",
    "onceward.inbox",
    "onceward_web.idempotency_key",
];

/// The service on a database of its own, reachable over HTTP.
pub struct Shop {
    pub platform: TestPlatform,
    pub api: Api,
    pub owner: Client,
    pub token: String,
}

impl Shop {
    /// Takes orders and serves them.
    pub async fn open(bus: &Bus) -> Self {
        let mut shop = Self::taking_orders_only(bus).await;
        shop.platform.run_consumers();
        shop
    }

    /// Takes orders; nobody serves them until consumers are started.
    pub async fn taking_orders_only(bus: &Bus) -> Self {
        let mut platform = TestPlatform::on_bus(vec![service()], bus.url.as_deref()).await;
        platform.run_relay();
        let api = Api::new(&platform.serve_http().await);
        let owner = platform.database().owner().await;
        let token = platform.token("acme");
        Self { platform, api, owner, token }
    }

    /// Places an order and gives its id.
    pub async fn place(&self, key: &str, sku: &str, quantity: i32) -> String {
        self.api.place(&self.token, key, &json!({"sku": sku, "quantity": quantity})).await.order_id()
    }

    /// The order's status once it is no longer merely placed.
    pub async fn settled(&self, order_id: &str) -> String {
        eventually("the order is settled", || async {
            let order = self.api.show(&self.token, order_id).await;
            assert_eq!(order.status, 200, "{}", order.body);
            let status = order.body["status"].as_str().expect("an order has a status");
            (status != "placed").then(|| status.to_owned())
        })
        .await
    }
}

/// The status of every order.
pub async fn statuses(owner: &Client) -> Vec<String> {
    let rows = owner.query("SELECT status FROM orders.customer_order", &[]).await.expect("the orders can be read");
    rows.iter().map(|row| row.get(0)).collect()
}

/// How many rows there are of everything that can be written.
pub async fn row_counts(owner: &Client) -> BTreeMap<&'static str, i64> {
    let mut counts = BTreeMap::new();
    for table in WRITTEN_TABLES {
        let known = owner.query_one("SELECT to_regclass($1) IS NOT NULL", &[table]).await.expect("a catalogue query");
        if known.get(0) {
            let row = owner.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.expect("a count");
            counts.insert(*table, row.get(0));
        }
    }
    counts
}
