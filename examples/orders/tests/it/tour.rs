//! The README's tour: an order comes in, stock is reserved, and the story is told under one id.

use crate::support::{
    api::answer,
    bus::{Bus, on_buses},
    shop::{Shop, row_counts},
};
use onceward_testkit::eventually;
use serde_json::{Value, json};
use uuid::Uuid;

on_buses!(an_order_is_taken_reserved_and_told_under_one_correlation_id);
async fn an_order_is_taken_reserved_and_told_under_one_correlation_id(bus: Bus) {
    let shop = Shop::open(&bus).await;
    let order = json!({"sku": "teapot", "quantity": 2});
    let request = shop.api.order(&shop.token, "first-try", &order).header("x-correlation-id", "tour-1");
    let taken = answer(request).await.unwrap();
    let id = taken.order_id();
    assert_eq!(taken.body["correlationId"], "tour-1");
    assert_eq!(taken.header("location"), Some(format!("/api/orders/{id}").as_str()));
    assert_eq!(taken.body["statusUrl"], format!("/api/orders/{id}"));

    assert_eq!(shop.settled(&id).await, "reserved");

    let events = shop
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
    assert_eq!(available(&shop, "teapot").await, 998);
}

on_buses!(an_order_for_more_than_there_is_is_rejected_and_takes_nothing);
async fn an_order_for_more_than_there_is_is_rejected_and_takes_nothing(bus: Bus) {
    let shop = Shop::open(&bus).await;
    let first = shop.place("a", "kettle", 600).await;
    assert_eq!(shop.settled(&first).await, "reserved");
    let second = shop.place("b", "kettle", 600).await;
    assert_eq!(shop.settled(&second).await, "rejected");
    assert_eq!(available(&shop, "kettle").await, 400);
}

on_buses!(orders_for_one_article_are_served_in_the_order_they_were_placed);
async fn orders_for_one_article_are_served_in_the_order_they_were_placed(bus: Bus) {
    let mut shop = Shop::taking_orders_only(&bus).await;
    let mut ids = Vec::new();
    for (number, quantity) in [400, 400, 400, 200].into_iter().enumerate() {
        ids.push(shop.place(&format!("order-{number}"), "cup", quantity).await);
    }
    shop.platform.run_consumers();
    let mut statuses = Vec::new();
    for id in &ids {
        statuses.push(shop.settled(id).await);
    }
    assert_eq!(statuses, ["reserved", "reserved", "rejected", "reserved"]);
    assert_eq!(available(&shop, "cup").await, 0);
}

on_buses!(the_same_key_twice_is_one_order_and_the_answer_is_marked_as_a_replay);
async fn the_same_key_twice_is_one_order_and_the_answer_is_marked_as_a_replay(bus: Bus) {
    let shop = Shop::open(&bus).await;
    let order = json!({"sku": "teapot", "quantity": 3});
    let first = shop.api.place(&shop.token, "once", &order).await;
    assert_eq!(first.header("idempotency-replayed"), None);
    let id = first.order_id();
    shop.settled(&id).await;
    let before = row_counts(&shop.owner).await;

    let second = shop.api.place(&shop.token, "once", &order).await;
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!((second.status, &second.body), (first.status, &first.body));
    assert_eq!(row_counts(&shop.owner).await, before);
    assert_eq!(available(&shop, "teapot").await, 997);
}

on_buses!(each_tenant_has_a_stock_of_its_own);
async fn each_tenant_has_a_stock_of_its_own(bus: Bus) {
    let shop = Shop::open(&bus).await;
    let id = shop.place("mine", "teapot", 1000).await;
    assert_eq!(shop.settled(&id).await, "reserved");
    let other = shop.platform.token("globex");
    let theirs = shop.api.place(&other, "theirs", &json!({"sku": "teapot", "quantity": 1000})).await.order_id();
    let status = eventually("the other tenant's order is settled", || async {
        let order = shop.api.show(&other, &theirs).await;
        (order.body["status"] != "placed").then(|| order.body["status"].clone())
    });
    assert_eq!(status.await, "reserved");
}

async fn available(shop: &Shop, sku: &str) -> i32 {
    let statement = "SELECT available FROM orders.stock WHERE tenant_id = 'acme' AND sku = $1";
    shop.owner.query_one(statement, &[&sku]).await.unwrap().get(0)
}
