//! The README's tour: an order is placed, stock is reserved, and all messages have one correlation id.

use crate::support::{
    api::order_id,
    bus::{Bus, on_buses},
    fixture::{OrdersFixture, row_counts},
};
use onceward_testkit::{HttpResponse, eventually};
use serde_json::{Value, json};
use uuid::Uuid;

on_buses!(an_accepted_order_is_reserved_and_its_events_have_one_correlation_id);
async fn an_accepted_order_is_reserved_and_its_events_have_one_correlation_id(bus: Bus) {
    let fixture = OrdersFixture::start(&bus).await;
    let order = json!({"sku": "teapot", "quantity": 2});
    let request = fixture.api.order(&fixture.token, "first-try", &order).header("x-correlation-id", "tour-1");
    let accepted = HttpResponse::to(request).await;
    let id = order_id(&accepted);
    assert_eq!(accepted.body["correlationId"], "tour-1");
    assert_eq!(accepted.header("location"), Some(format!("/api/orders/{id}").as_str()));
    assert_eq!(accepted.body["statusUrl"], format!("/api/orders/{id}"));

    assert_eq!(fixture.wait_until_settled(&id).await, "reserved");

    let events = fixture
        .owner
        .query(
            "SELECT event_type, id, correlation_id, causation_id, payload FROM onceward.outbox_messages ORDER BY created_at",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(events.len(), 2);
    let types: Vec<&str> = events.iter().map(|event| event.get(0)).collect();
    assert_eq!(types, ["order.placed.v1", "order.settled.v1"]);
    let placed_id: Uuid = events[0].get(1);
    assert_eq!(events[1].get::<_, &str>(2), "tour-1");
    assert_eq!(events[1].get::<_, Option<&str>>(3), Some(placed_id.to_string().as_str()));
    assert_eq!(events[1].get::<_, Value>(4), json!({"orderId": id, "sku": "teapot", "reserved": true}));
    assert_eq!(available(&fixture, "teapot").await, 998);
}

on_buses!(an_order_that_exceeds_the_stock_is_rejected_and_deducts_nothing);
async fn an_order_that_exceeds_the_stock_is_rejected_and_deducts_nothing(bus: Bus) {
    let fixture = OrdersFixture::start(&bus).await;
    let first = fixture.place("a", "kettle", 600).await;
    assert_eq!(fixture.wait_until_settled(&first).await, "reserved");
    let second = fixture.place("b", "kettle", 600).await;
    assert_eq!(fixture.wait_until_settled(&second).await, "rejected");
    assert_eq!(available(&fixture, "kettle").await, 400);
}

on_buses!(orders_for_one_article_are_served_in_the_order_they_were_placed);
async fn orders_for_one_article_are_served_in_the_order_they_were_placed(bus: Bus) {
    let mut fixture = OrdersFixture::start_without_consumers(&bus).await;
    let mut ids = Vec::new();
    for (number, quantity) in [400, 400, 400, 200].into_iter().enumerate() {
        ids.push(fixture.place(&format!("order-{number}"), "cup", quantity).await);
    }
    fixture.platform.run_consumers();
    let mut statuses = Vec::new();
    for id in &ids {
        statuses.push(fixture.wait_until_settled(id).await);
    }
    assert_eq!(statuses, ["reserved", "reserved", "rejected", "reserved"]);
    assert_eq!(available(&fixture, "cup").await, 0);
}

on_buses!(the_same_key_twice_is_one_order_and_the_second_response_is_marked_as_a_replay);
async fn the_same_key_twice_is_one_order_and_the_second_response_is_marked_as_a_replay(bus: Bus) {
    let fixture = OrdersFixture::start(&bus).await;
    let order = json!({"sku": "teapot", "quantity": 3});
    let first = fixture.api.place(&fixture.token, "once", &order).await;
    assert_eq!(first.header("idempotency-replayed"), None);
    let id = order_id(&first);
    fixture.wait_until_settled(&id).await;
    let before = row_counts(&fixture.owner).await;

    let second = fixture.api.place(&fixture.token, "once", &order).await;
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!((second.status, &second.body), (first.status, &first.body));
    assert_eq!(row_counts(&fixture.owner).await, before);
    assert_eq!(available(&fixture, "teapot").await, 997);
}

on_buses!(each_tenant_has_its_own_stock);
async fn each_tenant_has_its_own_stock(bus: Bus) {
    let fixture = OrdersFixture::start(&bus).await;
    let id = fixture.place("mine", "teapot", 1000).await;
    assert_eq!(fixture.wait_until_settled(&id).await, "reserved");
    let other = fixture.platform.token("globex");
    let theirs = order_id(&fixture.api.place(&other, "theirs", &json!({"sku": "teapot", "quantity": 1000})).await);
    let status = eventually("the other tenant's order is settled", || async {
        let order = fixture.api.show(&other, &theirs).await;
        (order.body["status"] != "placed").then(|| order.body["status"].clone())
    });
    assert_eq!(status.await, "reserved");
}

async fn available(fixture: &OrdersFixture, sku: &str) -> i32 {
    let statement = "SELECT available FROM orders.stock WHERE tenant_id = 'acme' AND sku = $1";
    fixture.owner.query_one(statement, &[&sku]).await.unwrap().get(0)
}
