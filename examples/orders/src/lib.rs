//! Accepts orders over HTTP, reserves stock in a consumer, and publishes the outcome.

mod store;

use onceward::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const EVENTS_EXCHANGE: &str = "orders.events";
const RESERVE_QUEUE: &str = "orders.reserve.v1";
const DEAD_LETTER_EXCHANGE: &str = "orders.dlq";
const DEAD_LETTER_QUEUE: &str = "orders.dlq.v1";

/// Returns the service with everything it owns.
pub fn service() -> Service {
    Service::new("orders")
        .migrations(Migrations {
            schema: "orders",
            steps: &[Migration { name: "0001_orders", sql: include_str!("../migrations/0001_orders.sql") }],
        })
        .requires(&[RequiredTable { table: "orders.customer_order", columns: &["tenant_id", "order_id", "status"] }])
        .schemas(&[
            include_str!("../schemas/order.place.v1.json"),
            include_str!("../schemas/order.v1.json"),
            include_str!("../schemas/order.placed.v1.json"),
            include_str!("../schemas/order.settled.v1.json"),
        ])
        .topology(
            Topology::new()
                .exchange(Exchange::topic(EVENTS_EXCHANGE))
                .exchange(Exchange::fanout(DEAD_LETTER_EXCHANGE))
                .queue(Queue::work(RESERVE_QUEUE).dead_letter(DEAD_LETTER_EXCHANGE).delivery_limit(6))
                .queue(Queue::dead_letter_store(DEAD_LETTER_QUEUE))
                .bind(EVENTS_EXCHANGE, "tenant.*.order.placed", RESERVE_QUEUE)
                .bind(DEAD_LETTER_EXCHANGE, "", DEAD_LETTER_QUEUE),
        )
        .publishes::<OrderPlaced>()
        .publishes::<OrderSettled>()
        .routes(routes)
        .consumer(Consumer::transactional("reserve-stock", RESERVE_QUEUE).on(ReserveStock))
}

/// An order was placed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderPlaced {
    order_id: Uuid,
    sku: String,
    quantity: i32,
}

impl Event for OrderPlaced {
    const TYPE: &'static str = "order.placed.v1";
    const EXCHANGE: &'static str = EVENTS_EXCHANGE;

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.order.placed")
    }

    /// Orders for the same article are served in the order in which they were placed.
    fn ordering_key(&self) -> Option<String> {
        Some(self.sku.clone())
    }
}

/// Stock was reserved for the order, or there was not enough.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderSettled {
    order_id: Uuid,
    sku: String,
    reserved: bool,
}

impl Event for OrderSettled {
    const TYPE: &'static str = "order.settled.v1";
    const EXCHANGE: &'static str = EVENTS_EXCHANGE;

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.order.settled")
    }
}

fn routes() -> Routes {
    Routes::new()
        .post("/api/orders", Access::role("orders:write"), place_order)
        .summary("Place an order")
        .request("order.place.v1")
        .responds_accepted()
        .get("/api/orders/{id}", Access::role("orders:read"), show_order)
        .summary("Show an order")
        .responds(200, "order.v1")
}

#[derive(Deserialize)]
struct PlaceOrder {
    sku: String,
    quantity: i32,
}

async fn place_order(command: Command<PlaceOrder>) -> Result<Response, Problem> {
    let (PlaceOrder { sku, quantity }, mut command) = command.into_parts();
    let order = OrderPlaced { order_id: Uuid::now_v7(), sku, quantity };
    store::insert_order(&command.tx, order.order_id, &order.sku, order.quantity).await?;
    outbox::publish(&mut command.tx, &order).await?;
    command.accepted(&format!("/api/orders/{}", order.order_id), &json!({ "orderId": order.order_id })).await
}

async fn show_order(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let missing = || Problem::new(codes::NOT_FOUND).detail("The order does not exist.");
    let order = store::find_order(&reader.tx, id).await?.ok_or_else(missing)?;
    reader.respond(&order).await
}

struct ReserveStock;

impl Handler for ReserveStock {
    type Event = OrderPlaced;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, OrderPlaced>) -> Result<(), Failure> {
        let OrderPlaced { order_id, sku, quantity } = &received.event;
        let reserved = store::reserve(tx, *order_id, sku, *quantity).await?;
        outbox::publish(tx, &OrderSettled { order_id: *order_id, sku: sku.clone(), reserved }).await?;
        Ok(())
    }
}
