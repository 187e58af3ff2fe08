//! Logs contain no payloads, at any level that an operator may choose.

use crate::support::{
    api::{ApiClient, order_id},
    bus::{Bus, on_buses},
    processes::{example, token},
};
use onceward::Platform;
use onceward_example_orders::service;
use onceward_testkit::{HttpResponse, SECRET, Scratch, TestDb, eventually, free_port};
use reqwest::Method;
use serde_json::json;

const MARKER: &str = "confidential-marker";

on_buses!(debug_logs_contain_no_payload_of_valid_invalid_or_poisoned_messages);
async fn debug_logs_contain_no_payload_of_valid_invalid_or_poisoned_messages(bus: Bus) {
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
    program.wait_until_ready(&url).await;
    let api = ApiClient::new(&url);
    let token = token("acme");

    let order = order_id(&api.place(&token, MARKER, &json!({"sku": MARKER, "quantity": 1})).await);
    let invalid = json!({"sku": MARKER, "quantity": MARKER});
    assert_eq!(api.place(&token, "invalid", &invalid).await.status, 422);
    let garbage = api.request(Method::POST, "/api/orders").bearer_auth(&token).header("idempotency-key", "garbage");
    let garbage = garbage.header("content-type", "application/json").body(format!("{{\"{MARKER}\""));
    assert_eq!(HttpResponse::to(garbage).await.status, 400);
    let owner = database.owner().await;
    owner
        .execute(
            "SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.placed', 'order.placed.v1', $1)",
            &[&json!({"orderId": MARKER, "sku": MARKER, "quantity": MARKER})],
        )
        .await
        .unwrap();
    eventually("the poisoned message is a dead letter", || async {
        owner.query_opt("SELECT FROM onceward.dead_letters", &[]).await.unwrap()
    })
    .await;
    eventually("the order is reserved", || async {
        (api.show(&token, &order).await.body["status"] == "reserved").then_some(())
    })
    .await;
    assert!(program.terminate().await.success());

    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("request finished") && text.contains("\"DEBUG\""), "the log has content at every level");
    assert!(text.contains("dead letter"), "the poisoned message is mentioned");
    let leaks: Vec<&str> = text.lines().filter(|line| line.contains(MARKER) || line.contains(&token)).collect();
    assert!(leaks.is_empty(), "{} lines contain a payload or a token, the first: {}", leaks.len(), leaks[0]);
}
