//! A program in another language: it publishes with SQL, every message twice, and some messages are invalid.

use super::load::{AcceptedOrder, random_order};
use onceward::{DbConfig, db::migrate};
use rand::{SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::{Client, Error};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const PUBLISH_INTERVAL: Duration = Duration::from_millis(100);
const MAX_MESSAGES: usize = 5_000;
const MAX_ATTEMPTS: usize = 600;
/// One of this many messages is poisoned.
const POISON_EVERY: usize = 4;

/// The messages that were published.
#[derive(Default)]
pub struct PublishedMessages {
    pub orders: Vec<AcceptedOrder>,
    pub poisoned_keys: Vec<String>,
}

/// The running publisher.
pub struct SqlPublisher {
    stop: CancellationToken,
    work: tokio::task::JoinHandle<PublishedMessages>,
}

impl SqlPublisher {
    pub fn start(database_url: &str, seed: u64) -> Self {
        let stop = CancellationToken::new();
        let work = tokio::spawn(run(DbConfig::new(database_url), seed, stop.clone()));
        Self { stop, work }
    }

    pub async fn finish(self) -> PublishedMessages {
        self.stop.cancel();
        self.work.await.expect("the publisher does not panic")
    }
}

async fn run(config: DbConfig, seed: u64, stop: CancellationToken) -> PublishedMessages {
    let mut rng = StdRng::seed_from_u64(!seed);
    let mut published = PublishedMessages::default();
    let mut pace = interval(PUBLISH_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..MAX_MESSAGES {
        pace.tick().await;
        if stop.is_cancelled() {
            break;
        }
        let (tenant, sku, quantity) = random_order(&mut rng);
        let order =
            AcceptedOrder { order_id: Uuid::now_v7(), tenant: tenant.to_owned(), sku: sku.to_owned(), quantity };
        let poisoned = number % POISON_EVERY == POISON_EVERY - 1;
        let key = format!("{}-{number}", if poisoned { "poison" } else { "sql" });
        until_committed(&config, &order, &key, poisoned).await;
        if poisoned {
            published.poisoned_keys.push(key);
        } else {
            published.orders.push(order);
        }
    }
    published
}

/// Publishes twice; starts again after an error, because the outcome of a broken commit is unknown.
async fn until_committed(config: &DbConfig, order: &AcceptedOrder, key: &str, poisoned: bool) {
    let mut pace = interval(PUBLISH_INTERVAL);
    for _ in 0..MAX_ATTEMPTS {
        pace.tick().await;
        let Ok(mut client) = migrate::owner(config).await else {
            continue;
        };
        let first = publish(&mut client, order, key, poisoned).await;
        if first.is_ok() && publish(&mut client, order, key, poisoned).await.is_ok_and(|id| id.is_none()) {
            return;
        }
    }
    panic!("{key} could not be published in {MAX_ATTEMPTS} attempts");
}

/// Writes the row and its message in one transaction. Returns `None` if the key was published before.
async fn publish(client: &mut Client, order: &AcceptedOrder, key: &str, poisoned: bool) -> Result<Option<Uuid>, Error> {
    let tx = client.transaction().await?;
    let payload: Value = if poisoned {
        json!({"orderId": order.order_id, "sku": order.sku, "quantity": "poison"})
    } else {
        let statement = "INSERT INTO orders.customer_order (tenant_id, order_id, sku, quantity) VALUES ($1, $2, $3, $4)
                         ON CONFLICT DO NOTHING";
        tx.execute(statement, &[&order.tenant, &order.order_id, &order.sku, &order.quantity]).await?;
        json!({"orderId": order.order_id, "sku": order.sku, "quantity": order.quantity})
    };
    let topic = format!("orders.events:tenant.{}.order.placed", order.tenant);
    let row = tx
        .query_one(
            "SELECT onceward.enqueue($1, $2, 'order.placed.v1', $3, p_idempotency_key => $4, p_ordering_key => $5)",
            &[&order.tenant, &topic, &payload, &key, &order.sku],
        )
        .await?;
    tx.commit().await?;
    Ok(row.get(0))
}
