//! Stripe's webhook, authenticated by its signature alone.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use onceward_testkit::HttpResponse;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use uuid::Uuid;

const SECRET: &str = "whsec_the_first_secret";
const NEXT: &str = "whsec_the_second_secret";

fn signed(secret: &str, at: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    mac.update(format!("{at}.{body}").as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

fn header(secret: &str, body: &str) -> String {
    let at = Timestamp::now().as_second();
    format!("t={at},v1={}", signed(secret, at, body))
}

fn event(loan_id: Uuid, intent: &str, cents: i64) -> Value {
    json!({
        "id": format!("evt_{intent}"), "type": "payment_intent.succeeded", "created": Timestamp::now().as_second(),
        "data": {"object": {
            "id": intent, "amount": cents, "amount_received": cents, "currency": "usd",
            "payment_method_types": ["us_bank_account"], "metadata": {"loan_id": loan_id}
        }}
    })
}

async fn send(fixture: &LendingFixture, tenant: &str, signature: Option<&str>, body: &str) -> HttpResponse {
    let request = post_publicly(fixture, &format!("/payments/intake/stripe?tenant={tenant}"));
    let request = request.header("content-type", "application/json").body(body.to_owned());
    HttpResponse::to(match signature {
        Some(signature) => request.header("stripe-signature", signature),
        None => request,
    })
    .await
}

fn post_publicly(fixture: &LendingFixture, path: &str) -> reqwest::RequestBuilder {
    without_token(fixture.client("nobody").request(Method::POST, path))
}

async fn put(client: &ApiClient<'_>, path: &str, body: &Value) -> HttpResponse {
    let key = Uuid::now_v7().to_string();
    HttpResponse::to(client.request(Method::PUT, path).header("idempotency-key", key).json(body)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_event_is_received_once_and_any_other_signature_is_rejected() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    put(&client, "/api/payments/providers/stripe", &json!({"webhook_secret": SECRET})).await.with_status(200);
    let body = event(loan_id, "pi_1", 2500).to_string();

    let now = Timestamp::now().as_second();
    let old = format!("t={},v1={}", now - 301, signed(SECRET, now - 301, &body));
    let ahead = format!("t={},v1={}", now + 320, signed(SECRET, now + 320, &body));
    let wrong = header("whsec_of_somebody_else", &body);
    let other_body = header(SECRET, "{}");
    let mut refusals = Vec::new();
    for (tenant, signature) in [
        ("acme", Some(old.as_str())),
        ("acme", Some(ahead.as_str())),
        ("acme", Some(wrong.as_str())),
        ("acme", Some(other_body.as_str())),
        ("acme", Some("t=1,v1=00")),
        ("acme", None),
        ("globex", Some(header(SECRET, &body).as_str())),
        ("no-such-tenant", Some(header(SECRET, &body).as_str())),
        ("no%20tenant", Some(header(SECRET, &body).as_str())),
    ] {
        let response = send(&fixture, tenant, signature, &body).await;
        assert_eq!(response.status, 401, "{tenant} {signature:?}: {}", response.body);
        let mut problem = response.body;
        problem.as_object_mut().expect("a problem").remove("correlationId");
        refusals.push(problem);
    }
    assert!(refusals.windows(2).all(|pair| pair[0] == pair[1]), "all responses are the same: {refusals:?}");
    let nameless = post_publicly(&fixture, "/payments/intake/stripe").header("stripe-signature", header(SECRET, &body));
    HttpResponse::to(nameless.body(body.clone())).await.with_status(401);
    assert_eq!(fixture.count("lending.payment_intake").await, 0);

    let taken = send(&fixture, "acme", Some(&header(SECRET, &body)), &body).await.with_status(201);
    let again = send(&fixture, "acme", Some(&header(SECRET, &body)), &body).await.with_status(200);
    assert_eq!(again["status"], "duplicate");
    let payment = wait_for_status(&client, id(&taken["payment_id"]), "posted").await;
    assert_eq!(
        (payment["intake"]["source"].clone(), payment["intake"]["method"].clone()),
        (json!("stripe"), json!("ach"))
    );
    assert_eq!(balance(&client, loan_id, "cash").await, 2500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_secret_is_replaced_only_the_current_and_the_previous_are_valid() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let set = async |secret: &str| {
        put(&client, "/api/payments/providers/stripe", &json!({"webhook_secret": secret})).await.with_status(200);
    };
    set(SECRET).await;
    set(NEXT).await;
    set(NEXT).await;
    for (intent, secret) in [("pi_1", SECRET), ("pi_2", NEXT)] {
        let body = event(loan_id, intent, 100).to_string();
        send(&fixture, "acme", Some(&header(secret, &body)), &body).await.with_status(201);
    }
    let body = event(loan_id, "pi_3", 100).to_string();
    let at = Timestamp::now().as_second();
    let both = format!("t={at},v1={},v1={}", "00".repeat(32), signed(NEXT, at, &body));
    send(&fixture, "acme", Some(&both), &body).await.with_status(201);
    set("whsec_the_third_secret").await;
    let body = event(loan_id, "pi_4", 100).to_string();
    send(&fixture, "acme", Some(&header(SECRET, &body)), &body).await.with_status(401);
    assert_eq!(fixture.count_audit_entries("acme", "payment_provider_secret_set").await, 4);
    let leaked = "SELECT count(*) FROM audit.entry WHERE document LIKE '%whsec%'";
    assert_eq!(fixture.query_value::<i64>(leaked, &[]).await, 0);
    put(&client, "/api/payments/providers/mock", &json!({"webhook_secret": SECRET})).await.with_status(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_events_are_ignored_and_invalid_ones_are_rejected() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let set = put(&client, "/api/payments/providers/stripe", &json!({"webhook_secret": SECRET})).await.with_status(200);
    assert_matches_schema(&client, "payment.provider.set.v1", &set);
    let say = async |body: Value| {
        let body = body.to_string();
        send(&fixture, "acme", Some(&header(SECRET, &body)), &body).await
    };
    let ignored = say(json!({"type": "customer.created", "data": {"object": {}}})).await.with_status(200);
    assert_eq!(ignored["status"], "ignored");
    assert_matches_schema(&client, "payment.webhook.v1", &ignored);
    let mut wrong = event(loan_id, "pi_1", 100);
    wrong["data"]["object"]["amount_received"] = json!(1.5);
    assert_eq!(say(wrong).await.wrong_fields(), ["/data/object/amount_received"]);
    let of_no_loan = say(event(Uuid::now_v7(), "pi_0", 100)).await.with_status(201);
    wait_for_status(&client, id(&of_no_loan["payment_id"]), "failed").await;
    send(&fixture, "acme", Some(&header(SECRET, "{")), "{").await.with_status(400);
    say(event(loan_id, "pi_1", 100)).await.with_status(201);
    assert_matches_schema(&client, "payment.webhook.v1", &say(event(loan_id, "pi_1", 100)).await.with_status(200));
    assert_eq!(say(event(loan_id, "pi_1", 101)).await.status, 409);
    assert_eq!(fixture.count("lending.payment_intake").await, 2);
    assert_eq!(fixture.count("lending.payment_conflict").await, 1);
}
