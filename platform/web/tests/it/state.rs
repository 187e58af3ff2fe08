//! Handlers that use the state of their service beside the platform's extractors.

use crate::support::{TestApp, post};
use axum::extract::{FromRef, Path, State};
use onceward_web::{Access, AppState, Caller, Command, Problem, Reader, Response, Routes, StatusCode};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

#[derive(Clone)]
struct ShopState {
    currency: Currency,
    orders: Arc<AtomicU32>,
}

#[derive(Clone, Copy)]
struct Currency(&'static str);

impl FromRef<ShopState> for Currency {
    fn from_ref(state: &ShopState) -> Self {
        state.currency
    }
}

async fn place_order(
    State(shop): State<ShopState>,
    platform: AppState,
    command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let order = shop.orders.fetch_add(1, Ordering::Relaxed) + 1;
    let limit = platform.config.max_body_bytes;
    command.respond(StatusCode::CREATED, &json!({"order": order, "limit": limit})).await
}

async fn show_price(
    State(Currency(currency)): State<Currency>,
    Path(sku): Path<String>,
    caller: Caller,
    reader: Reader,
) -> Result<Response, Problem> {
    reader.respond(&json!({"sku": sku, "currency": currency, "user": caller.user_id})).await
}

async fn show_version() -> &'static str {
    "1"
}

fn routes() -> Routes {
    let state = ShopState { currency: Currency("USD"), orders: Arc::default() };
    let shop = Routes::new()
        .post("/api/orders", Access::authenticated(), place_order)
        .get("/api/prices/{sku}", Access::authenticated(), show_price)
        .with_state(state);
    Routes::new().get("/api/version", Access::public(), show_version).merge(shop)
}

#[tokio::test]
async fn a_handler_extracts_the_state_of_its_service_beside_the_platforms() {
    let app = TestApp::serving(routes());
    let order = app.send(post("/api/orders", &app.token(), "k", "")).await;
    assert_eq!((order.status, &order.body), (201, &json!({"order": 1, "limit": 1024 * 1024})));
    let price = app.get("/api/prices/tea").await;
    assert_eq!((price.status, &price.body), (200, &json!({"sku": "tea", "currency": "USD", "user": "ann"})));
}

#[tokio::test]
async fn routes_with_and_without_a_state_are_merged() {
    let app = TestApp::serving(routes());
    assert_eq!(app.get("/api/version").await.text, "1");
    let order = app.send(post("/api/orders", &app.token(), "k", "")).await;
    let again = app.send(post("/api/orders", &app.token(), "k", "")).await;
    assert_eq!((order.text, again.header("idempotency-replayed")), (again.text.clone(), "true"));
}
