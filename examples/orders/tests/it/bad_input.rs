//! Bad input: each kind is reported as a specific problem, and nothing is written.

use crate::support::{
    bus::{Bus, on_buses},
    fixture::{OrdersFixture, row_counts},
};
use onceward::web::{Claims, issue_hs256};
use onceward_testkit::HttpResponse;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

/// Sends the request, and checks that it is rejected with this status and code and writes nothing.
async fn check_rejected(fixture: &OrdersFixture, request: RequestBuilder, status: u16, code: &str) -> HttpResponse {
    let before = row_counts(&fixture.owner).await;
    let rejected = HttpResponse::to(request).await;
    assert_eq!((rejected.status, rejected.body["code"].as_str()), (status, Some(code)), "{}", rejected.body);
    assert_eq!(rejected.header("content-type"), Some("application/problem+json"));
    assert_eq!(rejected.body["type"], format!("/problems/{code}"));
    assert_eq!(rejected.body["status"], status);
    assert_eq!(rejected.header("x-correlation-id"), rejected.body["correlationId"].as_str());
    assert!(rejected.body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{}", rejected.body);
    assert_eq!(row_counts(&fixture.owner).await, before, "a rejected request writes nothing");
    rejected
}

/// Builds an order with a raw body.
fn raw_order(fixture: &OrdersFixture, body: String) -> RequestBuilder {
    fixture
        .api
        .request(Method::POST, "/api/orders")
        .bearer_auth(&fixture.token)
        .header("idempotency-key", "k")
        .header("content-type", "application/json")
        .body(body)
}

fn teapot() -> Value {
    json!({"sku": "teapot", "quantity": 1})
}

on_buses!(a_body_over_the_limit_is_rejected_and_the_limit_is_named);
async fn a_body_over_the_limit_is_rejected_and_the_limit_is_named(bus: Bus) {
    let fixture = OrdersFixture::start_without_consumers(&bus).await;
    let limit = fixture.platform.config().http.max_body_bytes;
    let body = json!({"sku": "x".repeat(limit), "quantity": 1}).to_string();
    let rejected = check_rejected(&fixture, raw_order(&fixture, body), 413, "body-too-large").await;
    assert!(rejected.body["detail"].as_str().unwrap().contains(&limit.to_string()));
}

on_buses!(a_body_that_is_not_json_is_rejected_and_the_position_is_named);
async fn a_body_that_is_not_json_is_rejected_and_the_position_is_named(bus: Bus) {
    let fixture = OrdersFixture::start_without_consumers(&bus).await;
    let request = raw_order(&fixture, "{\"sku\": \"teapot\", ".to_owned());
    let rejected = check_rejected(&fixture, request, 400, "invalid-json").await;
    assert!(rejected.body["detail"].as_str().unwrap().contains("line 1"));
}

on_buses!(unknown_missing_and_mistyped_fields_are_named_by_their_paths);
async fn unknown_missing_and_mistyped_fields_are_named_by_their_paths(bus: Bus) {
    let fixture = OrdersFixture::start_without_consumers(&bus).await;
    let cases = [
        (json!({"sku": "teapot", "quantity": 1, "discount": 5}), vec!["/discount"]),
        (json!({"sku": "teapot", "quantity": "two"}), vec!["/quantity"]),
        (json!({"sku": "teapot", "quantity": 0}), vec!["/quantity"]),
        (json!({"sku": "teapot"}), vec!["/quantity"]),
        (json!({"sku": "", "quantity": 1001}), vec!["/quantity", "/sku"]),
        (json!(["teapot"]), vec![""]),
    ];
    for (body, expected) in cases {
        let request = raw_order(&fixture, body.to_string());
        let rejected = check_rejected(&fixture, request, 422, "validation-failed").await;
        assert_eq!(rejected.wrong_fields(), expected, "{body}");
    }
}

on_buses!(missing_expired_and_foreign_tokens_are_rejected);
async fn missing_expired_and_foreign_tokens_are_rejected(bus: Bus) {
    let fixture = OrdersFixture::start_without_consumers(&bus).await;
    let roles = fixture.platform.platform().roles();
    let expired = fixture.platform.token_for("acme", "tester", &roles, -3600);
    let foreign = issue_hs256(
        b"another secret that is long enough, too",
        &Claims { sub: "tester".into(), tenant: "acme".into(), roles, exp: u64::from(u32::MAX), ..Claims::default() },
    );
    for token in [expired.as_str(), foreign.as_str(), "not.a.token"] {
        let request = fixture.api.order(token, "k", &teapot());
        let rejected = check_rejected(&fixture, request, 401, "unauthorized").await;
        assert!(rejected.header("www-authenticate").is_some_and(|scheme| scheme.starts_with("Bearer")));
    }
    let without = fixture.api.request(Method::POST, "/api/orders").header("idempotency-key", "k").json(&teapot());
    check_rejected(&fixture, without, 401, "unauthorized").await;
}

on_buses!(a_caller_without_the_role_is_rejected);
async fn a_caller_without_the_role_is_rejected(bus: Bus) {
    let fixture = OrdersFixture::start_without_consumers(&bus).await;
    let reader = fixture.platform.token_for("acme", "tester", &["orders:read".to_owned()], 60);
    check_rejected(&fixture, fixture.api.order(&reader, "k", &teapot()), 403, "forbidden").await;
}

on_buses!(another_tenants_order_is_not_found);
async fn another_tenants_order_is_not_found(bus: Bus) {
    let fixture = OrdersFixture::start_without_consumers(&bus).await;
    let id = fixture.place("mine", "teapot", 1).await;
    assert_eq!(fixture.api.show(&fixture.token, &id).await.status, 200);
    let other_tenant = fixture.platform.token("globex");
    let request = fixture.api.request(Method::GET, &format!("/api/orders/{id}")).bearer_auth(&other_tenant);
    check_rejected(&fixture, request, 404, "not-found").await;
}

on_buses!(a_key_used_again_with_another_body_is_rejected);
async fn a_key_used_again_with_another_body_is_rejected(bus: Bus) {
    let fixture = OrdersFixture::start_without_consumers(&bus).await;
    fixture.place("k", "teapot", 1).await;
    let other = json!({"sku": "teapot", "quantity": 2});
    check_rejected(&fixture, fixture.api.order(&fixture.token, "k", &other), 422, "idempotency-key-reused").await;
}

on_buses!(a_command_without_a_key_is_rejected);
async fn a_command_without_a_key_is_rejected(bus: Bus) {
    let fixture = OrdersFixture::start_without_consumers(&bus).await;
    let request = fixture.api.request(Method::POST, "/api/orders").bearer_auth(&fixture.token).json(&teapot());
    check_rejected(&fixture, request, 400, "idempotency-key-missing").await;
}

on_buses!(a_body_without_the_json_content_type_is_rejected);
async fn a_body_without_the_json_content_type_is_rejected(bus: Bus) {
    let fixture = OrdersFixture::start_without_consumers(&bus).await;
    let request = fixture
        .api
        .request(Method::POST, "/api/orders")
        .bearer_auth(&fixture.token)
        .header("idempotency-key", "k")
        .header("content-type", "text/plain")
        .body(teapot().to_string());
    check_rejected(&fixture, request, 415, "unsupported-media-type").await;
}
