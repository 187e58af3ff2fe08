//! Bad input: each kind is a clear problem, and nothing at all is written.

use crate::support::{
    api::{Answer, answer},
    bus::{Bus, on_buses},
    shop::{Shop, row_counts},
};
use onceward::web::{Claims, issue_hs256};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

/// Sends the request, and checks that it is refused as said and leaves no trace.
async fn check_refused(shop: &Shop, request: RequestBuilder, status: u16, code: &str) -> Answer {
    let before = row_counts(&shop.owner).await;
    let refused = answer(request).await.expect("a refusal is an answer");
    assert_eq!((refused.status, refused.body["code"].as_str()), (status, Some(code)), "{}", refused.body);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.body["type"], format!("/problems/{code}"));
    assert_eq!(refused.body["status"], status);
    assert_eq!(refused.header("x-correlation-id"), refused.body["correlationId"].as_str());
    assert!(refused.body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{}", refused.body);
    assert_eq!(row_counts(&shop.owner).await, before, "a refused request writes nothing");
    refused
}

/// The paths of the fields that were complained about.
fn paths(refused: &Answer) -> Vec<&str> {
    let errors = refused.body["errors"].as_array().expect("a refusal of a body lists its faults");
    errors.iter().filter_map(|error| error["path"].as_str()).collect()
}

/// An order whose body is sent as it is.
fn raw_order(shop: &Shop, body: String) -> RequestBuilder {
    shop.api
        .request(Method::POST, "/api/orders")
        .bearer_auth(&shop.token)
        .header("idempotency-key", "k")
        .header("content-type", "application/json")
        .body(body)
}

fn teapot() -> Value {
    json!({"sku": "teapot", "quantity": 1})
}

on_buses!(a_body_over_the_limit_is_refused_with_the_limit_named);
async fn a_body_over_the_limit_is_refused_with_the_limit_named(bus: Bus) {
    let shop = Shop::taking_orders_only(&bus).await;
    let limit = shop.platform.config().http.max_body_bytes;
    let body = json!({"sku": "x".repeat(limit), "quantity": 1}).to_string();
    let refused = check_refused(&shop, raw_order(&shop, body), 413, "body-too-large").await;
    assert!(refused.body["detail"].as_str().unwrap().contains(&limit.to_string()));
}

on_buses!(a_body_that_is_not_json_is_refused_with_the_place_named);
async fn a_body_that_is_not_json_is_refused_with_the_place_named(bus: Bus) {
    let shop = Shop::taking_orders_only(&bus).await;
    let request = raw_order(&shop, "{\"sku\": \"teapot\", ".to_owned());
    let refused = check_refused(&shop, request, 400, "invalid-json").await;
    assert!(refused.body["detail"].as_str().unwrap().contains("line 1"));
}

on_buses!(fields_that_are_unknown_missing_or_of_another_type_are_named_by_their_paths);
async fn fields_that_are_unknown_missing_or_of_another_type_are_named_by_their_paths(bus: Bus) {
    let shop = Shop::taking_orders_only(&bus).await;
    let cases = [
        (json!({"sku": "teapot", "quantity": 1, "discount": 5}), vec!["/discount"]),
        (json!({"sku": "teapot", "quantity": "two"}), vec!["/quantity"]),
        (json!({"sku": "teapot", "quantity": 0}), vec!["/quantity"]),
        (json!({"sku": "teapot"}), vec!["/quantity"]),
        (json!({"sku": "", "quantity": 1001}), vec!["/quantity", "/sku"]),
        (json!(["teapot"]), vec![""]),
    ];
    for (body, expected) in cases {
        let request = raw_order(&shop, body.to_string());
        let refused = check_refused(&shop, request, 422, "validation-failed").await;
        let mut found = paths(&refused);
        found.sort_unstable();
        assert_eq!(found, expected, "{body}");
    }
}

on_buses!(tokens_that_are_missing_expired_or_signed_by_somebody_else_are_refused);
async fn tokens_that_are_missing_expired_or_signed_by_somebody_else_are_refused(bus: Bus) {
    let shop = Shop::taking_orders_only(&bus).await;
    let roles = shop.platform.platform().roles();
    let expired = shop.platform.token_for("acme", "tester", &roles, -3600);
    let foreign = issue_hs256(
        b"another secret that is long enough, too",
        &Claims { sub: "tester".into(), tenant: "acme".into(), roles, exp: u64::from(u32::MAX), ..Claims::default() },
    );
    for token in [expired.as_str(), foreign.as_str(), "not.a.token"] {
        let request = shop.api.order(token, "k", &teapot());
        let refused = check_refused(&shop, request, 401, "unauthorized").await;
        assert!(refused.header("www-authenticate").is_some_and(|scheme| scheme.starts_with("Bearer")));
    }
    let without = shop.api.request(Method::POST, "/api/orders").header("idempotency-key", "k").json(&teapot());
    check_refused(&shop, without, 401, "unauthorized").await;
}

on_buses!(a_caller_without_the_role_is_refused);
async fn a_caller_without_the_role_is_refused(bus: Bus) {
    let shop = Shop::taking_orders_only(&bus).await;
    let reader = shop.platform.token_for("acme", "tester", &["orders:read".to_owned()], 60);
    check_refused(&shop, shop.api.order(&reader, "k", &teapot()), 403, "forbidden").await;
}

on_buses!(another_tenants_order_is_not_found);
async fn another_tenants_order_is_not_found(bus: Bus) {
    let shop = Shop::taking_orders_only(&bus).await;
    let id = shop.place("mine", "teapot", 1).await;
    assert_eq!(shop.api.show(&shop.token, &id).await.status, 200);
    let stranger = shop.platform.token("globex");
    let request = shop.api.request(Method::GET, &format!("/api/orders/{id}")).bearer_auth(&stranger);
    check_refused(&shop, request, 404, "not-found").await;
}

on_buses!(a_key_used_again_with_another_body_is_refused);
async fn a_key_used_again_with_another_body_is_refused(bus: Bus) {
    let shop = Shop::taking_orders_only(&bus).await;
    shop.place("k", "teapot", 1).await;
    let other = json!({"sku": "teapot", "quantity": 2});
    check_refused(&shop, shop.api.order(&shop.token, "k", &other), 422, "idempotency-key-reused").await;
}

on_buses!(a_command_without_a_key_is_refused);
async fn a_command_without_a_key_is_refused(bus: Bus) {
    let shop = Shop::taking_orders_only(&bus).await;
    let request = shop.api.request(Method::POST, "/api/orders").bearer_auth(&shop.token).json(&teapot());
    check_refused(&shop, request, 400, "idempotency-key-missing").await;
}

on_buses!(a_body_that_does_not_say_it_is_json_is_refused);
async fn a_body_that_does_not_say_it_is_json_is_refused(bus: Bus) {
    let shop = Shop::taking_orders_only(&bus).await;
    let request = shop
        .api
        .request(Method::POST, "/api/orders")
        .bearer_auth(&shop.token)
        .header("idempotency-key", "k")
        .header("content-type", "text/plain")
        .body(teapot().to_string());
    check_refused(&shop, request, 415, "unsupported-media-type").await;
}
