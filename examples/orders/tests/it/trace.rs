//! One trace from the HTTP request through the outbox to what the handler publishes.

use crate::support::{
    api::answer,
    bus::{Bus, on_buses},
    shop::Shop,
};
use serde_json::json;
use std::collections::BTreeSet;

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLERS_SPAN: &str = "00f067aa0ba902b7";

on_buses!(a_trace_goes_from_the_request_through_the_outbox_to_the_handlers_event);
async fn a_trace_goes_from_the_request_through_the_outbox_to_the_handlers_event(bus: Bus) {
    let shop = Shop::open(&bus).await;
    let order = json!({"sku": "teapot", "quantity": 1});
    let traceparent = format!("00-{TRACE_ID}-{CALLERS_SPAN}-01");
    let request = shop.api.order(&shop.token, "traced", &order).header("traceparent", &traceparent);
    let taken = answer(request).await.unwrap();
    let answered = taken.header("traceparent").expect("the answer says its span").to_owned();
    shop.settled(&taken.order_id()).await;

    let statement = "SELECT event_type, headers->>'traceparent' FROM onceward.outbox_messages ORDER BY created_at";
    let rows = shop.owner.query(statement, &[]).await.unwrap();
    let types: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(types, ["order.placed.v1", "order.settled.v1"]);

    let mut spans = BTreeSet::from([CALLERS_SPAN.to_owned()]);
    assert_eq!(answered, rows[0].get::<_, &str>(1), "the outbox row belongs to the request's span");
    for row in &rows {
        let parts: Vec<&str> = row.get::<_, &str>(1).split('-').collect();
        assert_eq!((parts[1], parts[3]), (TRACE_ID, "01"));
        assert!(spans.insert(parts[2].to_owned()), "each step has a span of its own");
    }
}
