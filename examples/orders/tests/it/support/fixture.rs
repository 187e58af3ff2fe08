//! The service inside the test's process.

use super::{
    api::{ApiClient, order_id},
    bus::Bus,
};
use onceward_example_orders::service;
use onceward_testkit::{TestPlatform, eventually};
use serde_json::json;
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// All tables that a command of this service can write to.
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

/// The service on its own database, with its HTTP API.
pub struct OrdersFixture {
    pub platform: TestPlatform,
    pub api: ApiClient,
    pub owner: Client,
    pub token: String,
}

impl OrdersFixture {
    /// Starts the API, the relay and the consumers.
    pub async fn start(bus: &Bus) -> Self {
        let mut fixture = Self::start_without_consumers(bus).await;
        fixture.platform.run_consumers();
        fixture
    }

    /// Starts the API and the relay; orders stay `placed` until consumers are started.
    pub async fn start_without_consumers(bus: &Bus) -> Self {
        let mut platform = TestPlatform::on_bus(vec![service()], bus.url.as_deref()).await;
        platform.run_relay();
        let api = ApiClient::new(&platform.serve_http().await);
        let owner = platform.database().owner().await;
        let token = platform.token("acme");
        Self { platform, api, owner, token }
    }

    /// Places an order and returns its id.
    pub async fn place(&self, key: &str, sku: &str, quantity: i32) -> String {
        order_id(&self.api.place(&self.token, key, &json!({"sku": sku, "quantity": quantity})).await)
    }

    /// Waits until the order is no longer `placed`; returns its status.
    pub async fn wait_until_settled(&self, order_id: &str) -> String {
        eventually("the order is settled", || async {
            let order = self.api.show(&self.token, order_id).await.with_status(200);
            let status = order["status"].as_str().expect("an order has a status");
            (status != "placed").then(|| status.to_owned())
        })
        .await
    }
}

/// Returns the status of every order.
pub async fn statuses(owner: &Client) -> Vec<String> {
    let rows = owner.query("SELECT status FROM orders.customer_order", &[]).await.expect("the orders can be read");
    rows.iter().map(|row| row.get(0)).collect()
}

/// Returns the number of rows in each of these tables.
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
