//! Logs carry no payloads, at any level that a curious operator may choose.

use crate::support::{
    api::{Api, answer},
    bus::{Bus, on_buses},
    fleet::{example, token},
};
use onceward::Platform;
use onceward_example_orders::service;
use onceward_testkit::{SECRET, Scratch, TestDb, eventually, free_port};
use reqwest::Method;
use serde_json::json;

const MARKER: &str = "for-nobodys-eyes";

on_buses!(debug_logs_hold_no_payload_of_good_bad_or_poisoned_messages);
async fn debug_logs_hold_no_payload_of_good_bad_or_poisoned_messages(bus: Bus) {
    let platform = Platform::assemble(vec![service()]).unwrap();
    let (database, scratch) = (TestDb::for_platform_on(&platform, bus.kind).await, Scratch::new());
    let (url, listen) = (database.url(), format!("127.0.0.1:{}", free_port()));
    let variables = [
        ("DATABASE_URL", url.as_str()),
        ("ONCEWARD_AUTH_SECRET", SECRET),
        ("ONCEWARD_HTTP_LISTEN", &listen),
        ("BROKER_URL", bus.url.as_deref().unwrap_or_default()),
        ("ONCEWARD_BUS_NAMESPACE", &bus.namespace),
        ("RUST_LOG", "debug"),
    ];
    let log = scratch.join("stderr.log");
    let mut program = example().start(&["serve"], &variables, &log);
    let url = format!("http://{listen}");
    program.ready(&url).await;
    let api = Api::new(&url);
    let token = token("acme");

    let order = api.place(&token, MARKER, &json!({"sku": MARKER, "quantity": 1})).await.order_id();
    let refused = json!({"sku": MARKER, "quantity": MARKER});
    assert_eq!(api.place(&token, "refused", &refused).await.status, 422);
    let garbage = api.request(Method::POST, "/api/orders").bearer_auth(&token).header("idempotency-key", "garbage");
    let garbage = garbage.header("content-type", "application/json").body(format!("{{\"{MARKER}\""));
    assert_eq!(answer(garbage).await.unwrap().status, 400);
    let owner = database.owner().await;
    owner
        .execute(
            "SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.placed', 'order.placed.v1', $1)",
            &[&json!({"orderId": MARKER, "sku": MARKER, "quantity": MARKER})],
        )
        .await
        .unwrap();
    eventually("the poisoned message is put away", || async {
        owner.query_opt("SELECT FROM onceward.dead_letters", &[]).await.unwrap()
    })
    .await;
    eventually("the order is reserved", || async {
        (api.show(&token, &order).await.body["status"] == "reserved").then_some(())
    })
    .await;
    assert!(program.terminate().await.success());

    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("request finished") && text.contains("\"DEBUG\""), "there is something to look through");
    assert!(text.contains("dead letter"), "the poisoned message is mentioned");
    let leaks: Vec<&str> = text.lines().filter(|line| line.contains(MARKER) || line.contains(&token)).collect();
    assert!(leaks.is_empty(), "{} lines hold a payload or a token, the first: {}", leaks.len(), leaks[0]);
}
