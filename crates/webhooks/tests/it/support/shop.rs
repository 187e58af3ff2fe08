//! A service that has something to tell.

use onceward::{Event, Exchange, Scope, Service, TenantId, Topology, db::Db, outbox};
use onceward_webhooks::Source;
use serde::{Deserialize, Serialize};

pub const SOURCE: Source = Source::new("shop.events", "tenant.*.shop.#");

/// Something was sold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sold {
    pub number: u32,
}

impl Event for Sold {
    const TYPE: &'static str = "shop.sold.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("shop.events:tenant.{tenant}.shop.sold")
    }
}

pub fn shop() -> Service {
    Service::new("shop")
        .schemas(&[r#"{"$id": "shop.sold.v1", "type": "object", "required": ["number"]}"#])
        .topology(Topology::new().exchange(Exchange::topic("shop.events")))
}

/// Sells `numbers`, in one transaction. Gives the events' ids.
pub async fn sell(db: &Db, tenant: &str, numbers: std::ops::Range<u32>) -> Vec<String> {
    let tenant = TenantId::new(tenant).expect("a valid tenant");
    let mut tx = db.begin(Scope::tenant(tenant)).await.expect("a transaction");
    let mut ids = Vec::new();
    for number in numbers {
        ids.push(outbox::publish(&mut tx, &Sold { number }).await.expect("it fits its contract").to_string());
    }
    tx.commit().await.expect("the commit works");
    ids
}
