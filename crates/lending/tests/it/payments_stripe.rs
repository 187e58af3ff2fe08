//! Stripe's webhook: proved by its signature alone.

use crate::payments_support::*;
use crate::support::{Answer, Desk, Office};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
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

async fn send(office: &Office, tenant: &str, signature: Option<&str>, body: &str) -> Answer {
    let request = post_publicly(office, &format!("/payments/intake/stripe?tenant={tenant}"));
    let request = request.header("content-type", "application/json").body(body.to_owned());
    Answer::to(match signature {
        Some(signature) => request.header("stripe-signature", signature),
        None => request,
    })
    .await
}

fn post_publicly(office: &Office, path: &str) -> reqwest::RequestBuilder {
    without_token(office.desk("nobody").request(Method::POST, path))
}

async fn put(desk: &Desk<'_>, path: &str, body: &Value) -> Answer {
    let key = Uuid::now_v7().to_string();
    Answer::to(desk.request(Method::PUT, path).header("idempotency-key", key).json(body)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_event_is_a_payment_once_and_anything_else_proves_nothing() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    put(&desk, "/api/payments/providers/stripe", &json!({"webhook_secret": SECRET})).await.with_status(200);
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
        let answer = send(&office, tenant, signature, &body).await;
        assert_eq!(answer.status, 401, "{tenant} {signature:?}: {}", answer.body);
        let mut told = answer.body;
        told.as_object_mut().expect("a problem").remove("correlationId");
        refusals.push(told);
    }
    assert!(refusals.windows(2).all(|pair| pair[0] == pair[1]), "all are told the same: {refusals:?}");
    let nameless = post_publicly(&office, "/payments/intake/stripe").header("stripe-signature", header(SECRET, &body));
    Answer::to(nameless.body(body.clone())).await.with_status(401);
    assert_eq!(office.count("lending.payment_intake").await, 0);

    let taken = send(&office, "acme", Some(&header(SECRET, &body)), &body).await.with_status(201);
    let again = send(&office, "acme", Some(&header(SECRET, &body)), &body).await.with_status(200);
    assert_eq!(again["status"], "duplicate");
    let payment = becomes(&desk, id(&taken["payment_id"]), "posted").await;
    assert_eq!(
        (payment["intake"]["source"].clone(), payment["intake"]["method"].clone()),
        (json!("stripe"), json!("ach"))
    );
    assert_eq!(balance(&desk, loan_id, "cash").await, 2500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_secret_is_replaced_both_are_good_and_the_one_before_is_not() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    let set = async |secret: &str| {
        put(&desk, "/api/payments/providers/stripe", &json!({"webhook_secret": secret})).await.with_status(200);
    };
    set(SECRET).await;
    set(NEXT).await;
    set(NEXT).await;
    for (intent, secret) in [("pi_1", SECRET), ("pi_2", NEXT)] {
        let body = event(loan_id, intent, 100).to_string();
        send(&office, "acme", Some(&header(secret, &body)), &body).await.with_status(201);
    }
    let body = event(loan_id, "pi_3", 100).to_string();
    let at = Timestamp::now().as_second();
    let both = format!("t={at},v1={},v1={}", "00".repeat(32), signed(NEXT, at, &body));
    send(&office, "acme", Some(&both), &body).await.with_status(201);
    set("whsec_the_third_secret").await;
    let body = event(loan_id, "pi_4", 100).to_string();
    send(&office, "acme", Some(&header(SECRET, &body)), &body).await.with_status(401);
    assert_eq!(office.audited("acme", "payment_provider_secret_set").await, 4);
    let leaked = "SELECT count(*) FROM audit.entry WHERE document LIKE '%whsec%'";
    assert_eq!(office.ask::<i64>(leaked, &[]).await, 0);
    put(&desk, "/api/payments/providers/mock", &json!({"webhook_secret": SECRET})).await.with_status(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_are_no_payments_are_ignored_and_those_that_cannot_be_read_are_told() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    put(&desk, "/api/payments/providers/stripe", &json!({"webhook_secret": SECRET})).await.with_status(200);
    let say = async |body: Value| {
        let body = body.to_string();
        send(&office, "acme", Some(&header(SECRET, &body)), &body).await
    };
    let ignored = say(json!({"type": "customer.created", "data": {"object": {}}})).await.with_status(200);
    assert_eq!(ignored["status"], "ignored");
    let mut wrong = event(loan_id, "pi_1", 100);
    wrong["data"]["object"]["amount_received"] = json!(1.5);
    assert_eq!(say(wrong).await.wrong_fields(), ["/data/object/amount_received"]);
    assert_eq!(say(event(Uuid::now_v7(), "pi_1", 100)).await.status, 422);
    send(&office, "acme", Some(&header(SECRET, "{")), "{").await.with_status(400);
    say(event(loan_id, "pi_1", 100)).await.with_status(201);
    assert_eq!(say(event(loan_id, "pi_1", 101)).await.status, 409);
    assert_eq!(office.count("lending.payment_intake").await, 1);
    assert_eq!(office.count("lending.payment_conflict").await, 1);
}
