//! The provider is called, its response is recorded once, and a rejected charge becomes a dead letter.

use axum::{Json, Router, http::HeaderMap, http::StatusCode, routing::post};
use onceward::outbox;
use onceward_example_recipes::leased_call::{self, ChargeRequested};
use onceward_testkit::{TestPlatform, eventually};
use serde_json::{Value, json};

/// Starts a provider that rejects charges of zero, and returns the idempotency key that it received as its reference.
async fn provider() -> String {
    let charge = async |headers: HeaderMap, Json(body): Json<Value>| {
        if body["amountMinor"] == "0" {
            return Err(StatusCode::UNPROCESSABLE_ENTITY);
        }
        Ok(Json(json!({ "reference": headers["idempotency-key"].to_str().unwrap_or_default() })))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/charges", post(charge))).await });
    format!("http://{address}/charges")
}

#[tokio::test]
async fn a_charge_is_requested_with_the_key_of_its_message_and_recorded_once() {
    let mut platform = TestPlatform::new(vec![leased_call::service(&provider().await)]).await;
    let mut tx = platform.db().begin(platform.scope("acme")).await.unwrap();
    for (order, amount) in [("o-1", "1200"), ("o-2", "0")] {
        let event = ChargeRequested { order_id: order.to_owned(), amount_minor: amount.to_owned() };
        outbox::publish(&mut tx, &event).await.unwrap();
    }
    tx.commit().await.unwrap();
    platform.run_consumers();

    let client = platform.database().owner().await;
    let settled = "SELECT (SELECT count(*) FROM charges.charge) + (SELECT count(*) FROM onceward.dead_letters)";
    eventually("both are settled", || async {
        let count: i64 = client.query_one(settled, &[]).await.unwrap().get(0);
        (count == 2).then_some(())
    })
    .await;
    let reference = client.query_one("SELECT order_id, reference FROM charges.charge", &[]).await.unwrap();
    let key = "SELECT idempotency_key FROM onceward.outbox_messages WHERE payload->>'orderId' = 'o-1'";
    let key: String = client.query_one(key, &[]).await.unwrap().get(0);
    assert_eq!((reference.get::<_, &str>(0), reference.get::<_, String>(1)), ("o-1", key));
    let letter = client.query_one("SELECT last_error FROM onceward.dead_letters", &[]).await.unwrap();
    assert!(letter.get::<_, &str>(0).contains("422"));
}
