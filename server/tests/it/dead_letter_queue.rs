//! Messages that a broker has moved into a dead-letter queue itself.

use crate::{
    cli_fixture::{CliFixture, CommandOutput, QUEUE},
    support::services,
};
use onceward::{
    CorrelationId, Envelope, IdempotencyKey, TenantId,
    broker::{Parcel, wire},
    envelope::ENVELOPE_SCHEMA_VERSION,
    topology::Topic,
};
use onceward_testkit::{TestPlatform, left_out, redis_url};
use serde_json::json;
use uuid::Uuid;

/// The dead-letter queue of the orders.
pub const DEAD_LETTER_QUEUE: &str = "orders.dlq.v1";

/// A platform on Redis with its topology declared there. Nothing is running.
pub struct DeadLetterQueueFixture {
    platform: TestPlatform,
    pub cli: CliFixture,
    url: String,
}

impl DeadLetterQueueFixture {
    /// Returns `None` where Redis is left out.
    pub async fn new() -> Option<Self> {
        if left_out("redis") {
            return None;
        }
        let url = tokio::task::spawn_blocking(redis_url).await.expect("a Redis server");
        let platform = TestPlatform::on_bus(services(), Some(&url)).await;
        let cli = CliFixture::on_database(platform.database().url(), platform.database().owner().await);
        let queue = Self { platform, cli, url };
        let declared = queue.run(&["topology", "declare"]).await;
        assert_eq!(declared.code, 0, "{}", declared.stderr);
        Some(queue)
    }

    /// Returns the variables that configure the bus.
    pub fn variables(&self) -> [(&str, &str); 2] {
        [("BROKER_URL", &self.url), ("ONCEWARD_BUS_NAMESPACE", &self.platform.config().bus.namespace)]
    }

    /// Runs a command on this bus as olga.
    pub async fn run(&self, args: &[&str]) -> CommandOutput {
        let [url, namespace] = self.variables();
        self.cli.run_with(args, &[url, namespace, ("USER", "olga")]).await
    }

    /// Publishes one order of each of these tenants to the dead-letter queue.
    pub async fn publish_dead_orders(&self, tenants: &[&str]) {
        let broker = self.platform.broker();
        let parcels: Vec<Parcel> = tenants.iter().map(|tenant| dead_order(tenant)).collect();
        assert_eq!(broker.publish(parcels).await.expect("the bus accepts them").len(), tenants.len());
        assert_eq!(broker.waiting(DEAD_LETTER_QUEUE).await.expect("the bus responds"), Some(tenants.len() as u64));
        broker.close().await;
    }
}

fn dead_order(tenant: &str) -> Parcel {
    let id = Uuid::now_v7();
    let envelope = Envelope {
        event_id: id,
        event_type: "order.placed.v1".parse().expect("an event type"),
        schema_version: ENVELOPE_SCHEMA_VERSION,
        tenant_id: TenantId::new(tenant).expect("a tenant"),
        correlation_id: CorrelationId::generate(),
        causation_id: None,
        idempotency_key: IdempotencyKey::new(id.to_string()).expect("a key"),
        actor: None,
        occurred_at: "2026-11-05T10:00:00Z".parse().expect("a time"),
        extensions: serde_json::Map::new(),
        payload: json!({"orderId": id, "sku": "cup", "quantity": 1}).into(),
        trace: None,
    };
    let topic = format!("orders.events:tenant.{tenant}.order.placed");
    let headers = [(wire::TOPIC, topic.as_str()), ("x-death-queue", QUEUE), ("x-death-reason", "delivery_limit")];
    Parcel {
        id,
        topic: Topic::new("orders.dlq", "").into(),
        ordering_key: None,
        priority: 0,
        headers: headers.into_iter().map(|(name, value)| (name, value.to_owned())).collect(),
        body: envelope.to_json_bytes().expect("the envelope serializes").into(),
        expected: true,
    }
}
