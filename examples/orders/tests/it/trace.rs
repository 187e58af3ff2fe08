//! One trace from the HTTP request through the outbox to the messages that the handler publishes.

use crate::support::{
    api::order_id,
    bus::{Bus, on_buses},
    fixture::OrdersFixture,
};
use onceward_testkit::HttpResponse;
use serde_json::json;
use std::collections::BTreeSet;

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLERS_SPAN: &str = "00f067aa0ba902b7";

on_buses!(a_trace_continues_from_the_request_through_the_outbox_to_the_handlers_event);
async fn a_trace_continues_from_the_request_through_the_outbox_to_the_handlers_event(bus: Bus) {
    let fixture = OrdersFixture::start(&bus).await;
    let order = json!({"sku": "teapot", "quantity": 1});
    let traceparent = format!("00-{TRACE_ID}-{CALLERS_SPAN}-01");
    let request = fixture.api.order(&fixture.token, "traced", &order).header("traceparent", &traceparent);
    let accepted = HttpResponse::to(request).await;
    let traceparent = accepted.header("traceparent").expect("the response names its span").to_owned();
    fixture.wait_until_settled(&order_id(&accepted)).await;

    let statement = "SELECT event_type, headers->>'traceparent' FROM onceward.outbox_messages ORDER BY created_at";
    let rows = fixture.owner.query(statement, &[]).await.unwrap();
    let types: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(types, ["order.placed.v1", "order.settled.v1"]);

    let mut spans = BTreeSet::from([CALLERS_SPAN.to_owned()]);
    assert_eq!(traceparent, rows[0].get::<_, &str>(1), "the outbox row belongs to the request's span");
    for row in &rows {
        let parts: Vec<&str> = row.get::<_, &str>(1).split('-').collect();
        assert_eq!((parts[1], parts[3]), (TRACE_ID, "01"));
        assert!(spans.insert(parts[2].to_owned()), "each step has its own span");
    }
}
