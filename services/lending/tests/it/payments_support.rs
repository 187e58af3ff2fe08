//! Shared helpers of the payment tests.

use crate::support::{ApiClient, LendingFixture};
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use onceward_testkit::{HttpResponse, eventually};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns today's date, as payments see it.
pub fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

pub fn days_ago(days: i64) -> Date {
    today().saturating_sub(days.days())
}

/// Returns the mock gateway's message about a payment.
pub fn mock_payment(loan_id: Uuid, txn: &str, amount_minor: i64) -> Value {
    json!({"txn_id": txn, "loan_id": loan_id, "amount_minor": amount_minor.to_string(), "method": "ach"})
}

/// Returns the same message with an effective date.
pub fn mock_payment_on(loan_id: Uuid, txn: &str, amount_minor: i64, day: Date) -> Value {
    let mut body = mock_payment(loan_id, txn, amount_minor);
    body["effective_date"] = json!(day);
    body
}

/// Creates a loan of 1,200.00 at 12 % over 12 months that was funded `days` ago; its product `differs` in these
/// members.
pub async fn funded_loan(client: &ApiClient<'_>, days: i64, differs: Value) -> Uuid {
    let code = format!("p-{}", Uuid::now_v7().simple());
    let mut terms = json!({"annual_rate": "0.12", "day_count": "ACT/365", "term_months": 12});
    for (name, value) in differs.as_object().into_iter().flatten() {
        terms[name] = value.clone();
    }
    client.product(&code, terms).await;
    client.active_loan(&code, json!({"principal_minor": "120000", "start_date": days_ago(days)})).await
}

/// Removes the token from a request.
pub fn without_token(request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    let (client, request) = request.build_split();
    let mut request = request.expect("a request that can be built");
    request.headers_mut().remove("authorization");
    reqwest::RequestBuilder::from_parts(client, request)
}

/// Submits a payment through the mock gateway.
pub async fn submit(client: &ApiClient<'_>, body: &Value) -> HttpResponse {
    HttpResponse::to(client.request(Method::POST, "/payments/intake/mock").json(body)).await
}

/// Submits a new payment and returns its id.
pub async fn submit_new(client: &ApiClient<'_>, body: &Value) -> Uuid {
    let received = submit(client, body).await.with_status(201);
    assert_matches_schema(client, "payment.taken.v1", &received);
    id(&received["payment_id"])
}

pub fn id(value: &Value) -> Uuid {
    value.as_str().and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{value} is not an id"))
}

/// Returns a payment as the API shows it.
pub async fn payment(client: &ApiClient<'_>, payment_id: Uuid) -> Value {
    let found = client.get(&format!("/api/payments/{payment_id}")).await.with_status(200);
    assert_matches_schema(client, "payment.v1", &found);
    found
}

/// Checks that a response matches the schema that its route declares.
#[track_caller]
pub fn assert_matches_schema(client: &ApiClient<'_>, schema: &str, response: &Value) {
    let valid = client.fixture.platform.platform().schemas().validate(schema, response);
    assert!(valid.is_ok(), "{schema}: {} in {response:#}", valid.unwrap_err());
}

/// Waits until the payment has this status, and returns it.
pub async fn wait_for_status(client: &ApiClient<'_>, payment_id: Uuid, status: &str) -> Value {
    eventually(&format!("payment {payment_id} is {status}"), || async {
        let found = payment(client, payment_id).await;
        assert_eq!(found["dead_letters"].as_array().map_or(0, Vec::len), 0, "{found}");
        (found["status"] == status).then_some(found)
    })
    .await
}

/// Submits a payment and waits until it is posted.
pub async fn submit_and_post(client: &ApiClient<'_>, body: &Value) -> Value {
    let payment_id = submit_new(client, body).await;
    wait_for_status(client, payment_id, "posted").await
}

/// Returns how the money was applied: `{"interest_past_due": 12, …}` in the order of payment.
pub fn applied(posting: &Value) -> Vec<(String, i64)> {
    let parts = posting["applied"].as_array().expect("a division");
    let text = |part: &Value, name: &str| part[name].as_str().expect("text").to_owned();
    parts.iter().map(|part| (text(part, "bucket"), text(part, "amount_minor").parse().expect("digits"))).collect()
}

/// Returns an account's balance on its usual side.
pub async fn balance(client: &ApiClient<'_>, loan_id: Uuid, account: &str) -> i64 {
    client.balances(loan_id).await[format!("{account}_minor")].as_str().expect("digits").parse().expect("digits")
}

/// Returns the balances as of the end of a day.
pub async fn as_of(client: &ApiClient<'_>, loan_id: Uuid, day: Date) -> Value {
    client.get(&format!("/api/loans/{loan_id}/ledger?asOf={day}")).await.with_status(200)["balances"].clone()
}

/// Waits until every published message has been handled.
pub async fn wait_until_idle(fixture: &LendingFixture) {
    let waiting = "SELECT (SELECT coalesce(sum(depth), 0) FROM onceward.queue_stats(1000))::bigint
                          + (SELECT count(*) FROM onceward.deferred)";
    eventually("everything is handled", || async {
        (fixture.query_value::<i64>(waiting, &[]).await == 0).then_some(())
    })
    .await;
}

/// Checks that every posting balances, and so do all together, and that the stored balances are the sums of the lines.
pub async fn assert_books_balance(fixture: &LendingFixture) {
    let unbalanced =
        "SELECT count(*) FROM (SELECT event_id FROM ledger.ledger_entry GROUP BY tenant_id, event_id, currency
                      HAVING sum(debit_minor) <> sum(credit_minor)) AS wrong";
    assert_eq!(fixture.query_value::<i64>(unbalanced, &[]).await, 0);
    let drafts = "SELECT count(*) FROM ledger.ledger_event WHERE finalized_at IS NULL";
    assert_eq!(fixture.query_value::<i64>(drafts, &[]).await, 0);
    let differing = "SELECT count(*) FROM ledger.balance b FULL JOIN (
                         SELECT tenant_id, loan_id, account, currency, sum(debit_minor - credit_minor) AS balance
                         FROM ledger.ledger_entry GROUP BY 1, 2, 3, 4) n USING (tenant_id, loan_id, account, currency)
                     WHERE coalesce(b.balance_minor, 0) <> coalesce(n.balance, 0)";
    assert_eq!(fixture.query_value::<i64>(differing, &[]).await, 0);
}

/// Counts the published messages of this type.
pub async fn published(fixture: &LendingFixture, event_type: &str) -> i64 {
    let (name, version) = event_type.rsplit_once(".v").expect("a type with its version");
    let version: i16 = version.parse().expect("a version");
    let sql = "SELECT count(DISTINCT id) FROM onceward.message_log WHERE event_type = $1 AND version = $2";
    fixture.query_value(sql, &[&name, &version]).await
}
