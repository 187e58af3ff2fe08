//! What must hold when everything is through: every accepted command had exactly one effect, in its order.

use super::{
    load::{Accepted, Load, Seen},
    other_team::{OtherTeam, Published},
};
use onceward_testkit::{eventually, leftovers};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio_postgres::Client;
use uuid::Uuid;

/// Of everything there are so many at first.
const STOCK_AT_FIRST: i32 = 1000;

type Article = (String, String);

/// Everything that was promised to somebody.
pub struct Promised {
    pub seen: Arc<Seen>,
    /// By client, in the order in which each was answered.
    by_client: Vec<Vec<Accepted>>,
    by_sql: Published,
}

impl Promised {
    /// Ends the load and collects what it was promised.
    pub async fn collect(load: Load, team: OtherTeam) -> Self {
        let seen = load.seen.clone();
        let (by_client, by_sql) = tokio::join!(load.finish(), team.finish());
        Self { seen, by_client, by_sql }
    }

    pub fn poisoned(&self) -> usize {
        self.by_sql.poisoned_keys.len()
    }

    /// Every order with its details.
    pub fn orders(&self) -> BTreeMap<Uuid, &Accepted> {
        let all = self.by_client.iter().flatten().chain(&self.by_sql.orders);
        all.map(|order| (order.order_id, order)).collect()
    }
}

/// Waits until nothing is on its way any more, then checks every promise.
pub async fn check(owner: &Client, promised: &Promised) {
    eventually("everything is through", || async { is_through(owner, promised).await.then_some(()) }).await;
    check_orders(owner, promised).await;
    check_dead_letters(owner, promised).await;
    let placed = events(owner, "order.placed").await;
    let settled = events(owner, "order.settled").await;
    check_once_each(promised, &placed, &settled);
    check_order_per_article(promised, &placed, &settled);
    check_stock(owner, promised, &placed, &settled).await;
    let repeated = "SELECT tenant_id, idempotency_key FROM onceward.outbox_messages GROUP BY 1, 2 HAVING count(*) > 1";
    assert!(rows(owner, repeated).await.is_empty(), "an idempotency key was published twice");
    assert_eq!(leftovers(owner).await, Vec::<String>::new());
}

/// No queue holds anything here, and as much has come back from the bus as went there.
async fn is_through(owner: &Client, promised: &Promised) -> bool {
    let statement = "SELECT (SELECT count(*) FROM orders.customer_order WHERE status <> 'placed'),
                            (SELECT count(*) FROM onceward.dead_letters)";
    let ended = &rows(owner, statement).await[0];
    let [decided, dead]: [i64; 2] = [ended.get(0), ended.get(1)];
    decided as usize >= promised.orders().len()
        && dead as usize >= promised.poisoned()
        && leftovers(owner).await.is_empty()
}

/// One row for each accepted order and no others, all of them decided.
async fn check_orders(owner: &Client, promised: &Promised) {
    let found = rows(owner, "SELECT order_id, tenant_id, sku, quantity, status FROM orders.customer_order").await;
    let orders = promised.orders();
    for row in &found {
        let id: Uuid = row.get(0);
        let found = Accepted { order_id: id, tenant: row.get(1), sku: row.get(2), quantity: row.get(3) };
        assert_eq!(orders.get(&id), Some(&&found), "an order that nobody was promised");
        assert_ne!(row.get::<_, &str>(4), "placed", "order {id} was never decided");
    }
    assert_eq!(found.len(), orders.len(), "an accepted order is missing");
}

/// Exactly what was poisoned, each once.
async fn check_dead_letters(owner: &Client, promised: &Promised) {
    let statement = "SELECT d.message->>'idempotency_key', d.reason FROM onceward.dead_letters d ORDER BY 1";
    let dead = rows(owner, statement).await;
    let mut poisoned: Vec<&str> = promised.by_sql.poisoned_keys.iter().map(String::as_str).collect();
    poisoned.sort_unstable();
    let mut keys: Vec<&str> = dead.iter().map(|row| row.get(0)).collect();
    keys.sort_unstable();
    assert_eq!(keys, poisoned);
    let reasons: BTreeSet<&str> = dead.iter().map(|row| row.get(1)).collect();
    assert!(reasons.len() <= 1 && reasons.iter().all(|reason| reason.contains("schema")), "{reasons:?}");
}

/// A message of the log, in the log's order.
struct Logged {
    id: Uuid,
    causation_id: Option<String>,
    article: Article,
    order_id: Uuid,
    reserved: Option<bool>,
}

/// All messages of a type but the poisoned ones.
async fn events(owner: &Client, event_type: &str) -> Vec<Logged> {
    let statement = "
        SELECT id, causation_id, tenant_id, payload->>'sku', (payload->>'orderId')::uuid, (payload->>'reserved')::boolean
        FROM onceward.message_log
        WHERE event_type = $1 AND copy = 0 AND topic LIKE 'orders.events:%' AND coalesce(idempotency_key, '') NOT LIKE 'poison-%' ORDER BY seq";
    let rows = owner.query(statement, &[&event_type]).await.expect("the log can be read");
    rows.iter()
        .map(|row| Logged {
            id: row.get(0),
            causation_id: row.get(1),
            article: (row.get(2), row.get(3)),
            order_id: row.get(4),
            reserved: row.get(5),
        })
        .collect()
}

/// One event of each kind for each order, the second caused by the first.
fn check_once_each(promised: &Promised, placed: &[Logged], settled: &[Logged]) {
    let orders = promised.orders();
    let causes: BTreeMap<Uuid, String> = placed.iter().map(|event| (event.order_id, event.id.to_string())).collect();
    for (kind, events) in [("placed", placed), ("settled", settled)] {
        let ids: BTreeSet<Uuid> = events.iter().map(|event| event.order_id).collect();
        assert_eq!(ids.len(), events.len(), "an order was {kind} twice");
        assert!(ids.iter().eq(orders.keys()), "what was {kind} is not what was accepted");
    }
    for event in settled {
        assert_eq!(event.causation_id.as_ref(), causes.get(&event.order_id));
    }
}

/// Orders of one article are settled in the order they were placed in, which is the order each client was answered in.
fn check_order_per_article(promised: &Promised, placed: &[Logged], settled: &[Logged]) {
    let by_article = |events: &[Logged]| {
        let mut orders: BTreeMap<Article, Vec<Uuid>> = BTreeMap::new();
        for event in events {
            orders.entry(event.article.clone()).or_default().push(event.order_id);
        }
        orders
    };
    let placed = by_article(placed);
    assert_eq!(placed, by_article(settled), "an article's orders were not settled in the order they were placed");
    let place: BTreeMap<Uuid, usize> =
        placed.values().flat_map(|ids| ids.iter().enumerate().map(|(place, id)| (*id, place))).collect();
    for answered in promised.by_client.iter().chain([&promised.by_sql.orders]) {
        let mut last: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for order in answered {
            let place = place[&order.order_id];
            let before = last.insert((&order.tenant, &order.sku), place);
            assert!(before.is_none_or(|before| before < place), "an order overtook one that was answered before it");
        }
    }
}

/// Whoever came first was served, and exactly what was reserved is gone from the stock.
async fn check_stock(owner: &Client, promised: &Promised, placed: &[Logged], settled: &[Logged]) {
    let orders = promised.orders();
    let outcome: BTreeMap<Uuid, Option<bool>> = settled.iter().map(|event| (event.order_id, event.reserved)).collect();
    let mut stock: BTreeMap<Article, i32> = BTreeMap::new();
    for event in placed {
        let quantity = orders[&event.order_id].quantity;
        let available = stock.entry(event.article.clone()).or_insert(STOCK_AT_FIRST);
        let enough = *available >= quantity;
        assert_eq!(outcome[&event.order_id], Some(enough), "order {} was decided wrongly", event.order_id);
        *available -= if enough { quantity } else { 0 };
    }
    let found = rows(owner, "SELECT tenant_id, sku, available FROM orders.stock").await;
    let found: BTreeMap<Article, i32> = found.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect();
    assert_eq!(found, stock);
    let reserved = rows(owner, "SELECT order_id, status = 'reserved' FROM orders.customer_order").await;
    for row in &reserved {
        assert_eq!(outcome[&row.get(0)], Some(row.get(1)));
    }
}

async fn rows(owner: &Client, statement: &str) -> Vec<tokio_postgres::Row> {
    owner.query(statement, &[]).await.expect("the database can be asked")
}
