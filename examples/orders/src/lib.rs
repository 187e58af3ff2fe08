//! Takes an order over HTTP, reserves stock in a consumer, and says how it went.

mod store;

use onceward::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The service, with all it owns.
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
                .exchange(Exchange::topic("orders.events"))
                .exchange(Exchange::fanout("orders.dlq"))
                .queue(Queue::work("orders.reserve.v1").dead_letter("orders.dlq").delivery_limit(6))
                .queue(Queue::dead_letter_store("orders.dlq.v1"))
                .bind("orders.events", "tenant.*.order.placed", "orders.reserve.v1")
                .bind("orders.dlq", "", "orders.dlq.v1"),
        )
        .routes(routes)
        .consumer(Consumer::transactional("reserve-stock", "orders.reserve.v1").on(ReserveStock))
}

/// An order was taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderPlaced {
    order_id: Uuid,
    sku: String,
    quantity: i32,
}

impl Event for OrderPlaced {
    const TYPE: &'static str = "order.placed.v1";
    fn topic(&self, tenant: &TenantId) -> String {
        format!("orders.events:tenant.{tenant}.order.placed")
    }

    /// Orders for the same article are served first come, first served.
    fn ordering_key(&self) -> Option<String> {
        Some(self.sku.clone())
    }
}

/// Its stock was reserved, or there was not enough.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderSettled {
    order_id: Uuid,
    sku: String,
    reserved: bool,
}

impl Event for OrderSettled {
    const TYPE: &'static str = "order.settled.v1";
    fn topic(&self, tenant: &TenantId) -> String {
        format!("orders.events:tenant.{tenant}.order.settled")
    }
}

fn routes() -> Routes {
    Routes::new()
        .post("/api/orders", Access::role("orders:write"), place_order)
        .summary("Place an order")
        .request("order.place.v1")
        .responds_empty(202)
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
    let missing = || Problem::new(codes::NOT_FOUND).detail("there is no such order");
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
