//! A service that publishes events: a shop.

use onceward::{Event, Exchange, Scope, Service, TenantId, Topology, db::Db, outbox};
use onceward_webhooks::EventSource;
use serde::{Deserialize, Serialize};

const EXCHANGE: &str = "shop.events";

/// The shop's events, as a source for endpoints.
pub const SHOP_EVENTS: EventSource = EventSource::new(EXCHANGE, "tenant.*.shop.#");

/// An item was sold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ItemSold {
    pub number: u32,
}

impl Event for ItemSold {
    const TYPE: &'static str = "shop.sold.v1";
    const EXCHANGE: &'static str = EXCHANGE;

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.shop.sold")
    }
}

pub fn shop_service() -> Service {
    Service::new("shop")
        .schemas(&[r#"{"$id": "shop.sold.v1", "type": "object", "required": ["number"]}"#])
        .topology(Topology::new().exchange(Exchange::topic(EXCHANGE)))
        .publishes::<ItemSold>()
}

/// Publishes a sale for each of `numbers` in one transaction. Returns the events' ids.
pub async fn publish_sales(db: &Db, tenant: &str, numbers: std::ops::Range<u32>) -> Vec<String> {
    let tenant = TenantId::new(tenant).expect("a valid tenant");
    let mut tx = db.begin(Scope::for_tenant(tenant)).await.expect("a transaction");
    let mut ids = Vec::new();
    for number in numbers {
        ids.push(outbox::publish(&mut tx, &ItemSold { number }).await.expect("the event is valid").to_string());
    }
    tx.commit().await.expect("the commit succeeds");
    ids
}
