//! Checks the final state: every accepted command had exactly one effect, in order.

use super::{
    load::{AcceptedOrder, LoadCounters, OrderLoad},
    sql_publisher::{PublishedMessages, SqlPublisher},
};
use onceward_testkit::{eventually, pending_work};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio_postgres::Client;
use uuid::Uuid;

/// The initial stock of every article.
const INITIAL_STOCK: i32 = 1000;

type Article = (String, String);

/// Every order that was accepted, and every message that was published.
pub struct ExpectedOrders {
    pub counters: Arc<LoadCounters>,
    /// The accepted orders of each client, in the order of their responses.
    by_client: Vec<Vec<AcceptedOrder>>,
    by_sql: PublishedMessages,
}

impl ExpectedOrders {
    /// Stops the load and collects the accepted commands.
    pub async fn collect(load: OrderLoad, publisher: SqlPublisher) -> Self {
        let counters = load.counters.clone();
        let (by_client, by_sql) = tokio::join!(load.finish(), publisher.finish());
        Self { counters, by_client, by_sql }
    }

    pub fn poisoned(&self) -> usize {
        self.by_sql.poisoned_keys.len()
    }

    /// Returns every order with its details.
    pub fn orders(&self) -> BTreeMap<Uuid, &AcceptedOrder> {
        let all = self.by_client.iter().flatten().chain(&self.by_sql.orders);
        all.map(|order| (order.order_id, order)).collect()
    }
}

/// Waits until nothing is in flight, then checks every accepted command.
pub async fn check(owner: &Client, expected: &ExpectedOrders) {
    eventually("everything is handled", || async { is_handled(owner, expected).await.then_some(()) }).await;
    check_orders(owner, expected).await;
    check_dead_letters(owner, expected).await;
    let placed = events(owner, "order.placed").await;
    let settled = events(owner, "order.settled").await;
    check_once_each(expected, &placed, &settled);
    check_order_per_article(expected, &placed, &settled);
    check_stock(owner, expected, &placed, &settled).await;
    let repeated = "SELECT tenant_id, idempotency_key FROM onceward.outbox_messages GROUP BY 1, 2 HAVING count(*) > 1";
    assert!(query_rows(owner, repeated).await.is_empty(), "an idempotency key was published twice");
    assert_eq!(pending_work(owner).await, Vec::<String>::new());
}

/// Returns whether all accepted orders are decided, all poisoned messages are dead letters, and nothing is left to do.
async fn is_handled(owner: &Client, expected: &ExpectedOrders) -> bool {
    let statement = "SELECT (SELECT count(*) FROM orders.customer_order WHERE status <> 'placed'),
                            (SELECT count(*) FROM onceward.dead_letters)";
    let ended = &query_rows(owner, statement).await[0];
    let [decided, dead]: [i64; 2] = [ended.get(0), ended.get(1)];
    decided as usize >= expected.orders().len()
        && dead as usize >= expected.poisoned()
        && pending_work(owner).await.is_empty()
}

/// Checks that each accepted order has one row, that no others exist, and that all are decided.
async fn check_orders(owner: &Client, expected: &ExpectedOrders) {
    let found = query_rows(owner, "SELECT order_id, tenant_id, sku, quantity, status FROM orders.customer_order").await;
    let orders = expected.orders();
    for row in &found {
        let id: Uuid = row.get(0);
        let found = AcceptedOrder { order_id: id, tenant: row.get(1), sku: row.get(2), quantity: row.get(3) };
        assert_eq!(orders.get(&id), Some(&&found), "an order that was not accepted");
        assert_ne!(row.get::<_, &str>(4), "placed", "order {id} was never decided");
    }
    assert_eq!(found.len(), orders.len(), "an accepted order is missing");
}

/// Checks that exactly the poisoned messages are dead letters, each once.
async fn check_dead_letters(owner: &Client, expected: &ExpectedOrders) {
    let statement = "SELECT d.message->>'idempotency_key', d.reason FROM onceward.dead_letters d ORDER BY 1";
    let dead = query_rows(owner, statement).await;
    let mut poisoned: Vec<&str> = expected.by_sql.poisoned_keys.iter().map(String::as_str).collect();
    poisoned.sort_unstable();
    let mut keys: Vec<&str> = dead.iter().map(|row| row.get(0)).collect();
    keys.sort_unstable();
    assert_eq!(keys, poisoned);
    let reasons: BTreeSet<&str> = dead.iter().map(|row| row.get(1)).collect();
    assert!(reasons.len() <= 1 && reasons.iter().all(|reason| reason.contains("schema")), "{reasons:?}");
}

/// A message of the log.
struct LoggedEvent {
    id: Uuid,
    causation_id: Option<String>,
    article: Article,
    order_id: Uuid,
    reserved: Option<bool>,
}

/// Returns all messages of a type except the poisoned ones, in the log's order.
async fn events(owner: &Client, event_type: &str) -> Vec<LoggedEvent> {
    let statement = "
        SELECT id, causation_id, tenant_id, payload->>'sku', (payload->>'orderId')::uuid, (payload->>'reserved')::boolean
        FROM onceward.message_log
        WHERE event_type = $1 AND copy = 0 AND topic LIKE 'orders.events:%' AND coalesce(idempotency_key, '') NOT LIKE 'poison-%' ORDER BY seq";
    let rows = owner.query(statement, &[&event_type]).await.expect("the log can be read");
    rows.iter()
        .map(|row| LoggedEvent {
            id: row.get(0),
            causation_id: row.get(1),
            article: (row.get(2), row.get(3)),
            order_id: row.get(4),
            reserved: row.get(5),
        })
        .collect()
}

/// Checks that each order has one event of each kind, the second caused by the first.
fn check_once_each(expected: &ExpectedOrders, placed: &[LoggedEvent], settled: &[LoggedEvent]) {
    let orders = expected.orders();
    let causes: BTreeMap<Uuid, String> = placed.iter().map(|event| (event.order_id, event.id.to_string())).collect();
    for (kind, events) in [("placed", placed), ("settled", settled)] {
        let ids: BTreeSet<Uuid> = events.iter().map(|event| event.order_id).collect();
        assert_eq!(ids.len(), events.len(), "an order was {kind} twice");
        assert!(ids.iter().eq(orders.keys()), "the {kind} orders are not those that were accepted");
    }
    for event in settled {
        assert_eq!(event.causation_id.as_ref(), causes.get(&event.order_id));
    }
}

/// Checks that orders of one article are settled in the order they were placed, which is the order of each client's
/// responses.
fn check_order_per_article(expected: &ExpectedOrders, placed: &[LoggedEvent], settled: &[LoggedEvent]) {
    let by_article = |events: &[LoggedEvent]| {
        let mut orders: BTreeMap<Article, Vec<Uuid>> = BTreeMap::new();
        for event in events {
            orders.entry(event.article.clone()).or_default().push(event.order_id);
        }
        orders
    };
    let placed = by_article(placed);
    assert_eq!(placed, by_article(settled), "an article's orders were not settled in the order they were placed");
    let positions: BTreeMap<Uuid, usize> =
        placed.values().flat_map(|ids| ids.iter().enumerate().map(|(position, id)| (*id, position))).collect();
    for accepted in expected.by_client.iter().chain([&expected.by_sql.orders]) {
        let mut last: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for order in accepted {
            let position = positions[&order.order_id];
            let before = last.insert((&order.tenant, &order.sku), position);
            assert!(before.is_none_or(|before| before < position), "an order overtook one that was accepted before it");
        }
    }
}

/// Checks that orders were served first come, first served, and that exactly the reserved quantity was deducted from
/// the stock.
async fn check_stock(owner: &Client, expected: &ExpectedOrders, placed: &[LoggedEvent], settled: &[LoggedEvent]) {
    let orders = expected.orders();
    let outcome: BTreeMap<Uuid, Option<bool>> = settled.iter().map(|event| (event.order_id, event.reserved)).collect();
    let mut stock: BTreeMap<Article, i32> = BTreeMap::new();
    for event in placed {
        let quantity = orders[&event.order_id].quantity;
        let available = stock.entry(event.article.clone()).or_insert(INITIAL_STOCK);
        let enough = *available >= quantity;
        assert_eq!(outcome[&event.order_id], Some(enough), "order {} was decided wrongly", event.order_id);
        *available -= if enough { quantity } else { 0 };
    }
    let found = query_rows(owner, "SELECT tenant_id, sku, available FROM orders.stock").await;
    let found: BTreeMap<Article, i32> = found.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect();
    assert_eq!(found, stock);
    let reserved = query_rows(owner, "SELECT order_id, status = 'reserved' FROM orders.customer_order").await;
    for row in &reserved {
        assert_eq!(outcome[&row.get(0)], Some(row.get(1)));
    }
}

async fn query_rows(owner: &Client, statement: &str) -> Vec<tokio_postgres::Row> {
    owner.query(statement, &[]).await.expect("the query succeeds")
}
