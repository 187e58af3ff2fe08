//! What the tests of payments share: a desk that pays.

use crate::support::{Answer, Desk, Office};
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use onceward_testkit::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// Today, as payments see it.
pub fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

pub fn days_ago(days: i64) -> Date {
    today().saturating_sub(days.days())
}

/// What is told to the mock gateway.
pub fn mock(loan_id: Uuid, txn: &str, amount_minor: i64) -> Value {
    json!({"txn_id": txn, "loan_id": loan_id, "amount_minor": amount_minor.to_string(), "method": "ach"})
}

/// The same, counting from a day.
pub fn mock_on(loan_id: Uuid, txn: &str, amount_minor: i64, day: Date) -> Value {
    let mut body = mock(loan_id, txn, amount_minor);
    body["effective_date"] = json!(day);
    body
}

/// A loan of 1,200.00 at 12 % over 12 months that was funded `days` ago, with what its product `differs` in.
pub async fn funded_loan(desk: &Desk<'_>, days: i64, differs: Value) -> Uuid {
    let code = format!("p-{}", Uuid::now_v7().simple());
    let mut terms = json!({"annual_rate": "0.12", "day_count": "ACT/365", "term_months": 12});
    for (name, value) in differs.as_object().into_iter().flatten() {
        terms[name] = value.clone();
    }
    desk.product(&code, terms).await;
    desk.active_loan(&code, json!({"principal_minor": "120000", "start_date": days_ago(days)})).await
}

/// The same request by somebody without a token.
pub fn without_token(request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    let (client, request) = request.build_split();
    let mut request = request.expect("a request that can be built");
    request.headers_mut().remove("authorization");
    reqwest::RequestBuilder::from_parts(client, request)
}

pub async fn take_in(desk: &Desk<'_>, body: &Value) -> Answer {
    Answer::to(desk.request(Method::POST, "/payments/intake/mock").json(body)).await
}

/// Takes in a payment that is new, and gives its id.
pub async fn accepted(desk: &Desk<'_>, body: &Value) -> Uuid {
    id(&take_in(desk, body).await.with_status(201)["payment_id"])
}

pub fn id(value: &Value) -> Uuid {
    value.as_str().and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{value} is no id"))
}

pub async fn payment(desk: &Desk<'_>, payment_id: Uuid) -> Value {
    desk.get(&format!("/api/payments/{payment_id}")).await.with_status(200)
}

/// The payment once it has this status.
pub async fn becomes(desk: &Desk<'_>, payment_id: Uuid, status: &str) -> Value {
    eventually(&format!("payment {payment_id} is {status}"), || async {
        let found = payment(desk, payment_id).await;
        assert_eq!(found["dead_letters"].as_array().map_or(0, Vec::len), 0, "{found}");
        (found["status"] == status).then_some(found)
    })
    .await
}

/// Takes in a payment and waits until it is posted.
pub async fn posted(desk: &Desk<'_>, body: &Value) -> Value {
    let payment_id = accepted(desk, body).await;
    becomes(desk, payment_id, "posted").await
}

/// What became of the money: `{"interest_past_due": 12, …}` in the order in which it was paid.
pub fn applied(posting: &Value) -> Vec<(String, i64)> {
    let parts = posting["applied"].as_array().expect("a division");
    let text = |part: &Value, name: &str| part[name].as_str().expect("text").to_owned();
    parts.iter().map(|part| (text(part, "bucket"), text(part, "amount_minor").parse().expect("digits"))).collect()
}

/// An account's balance on its usual side.
pub async fn balance(desk: &Desk<'_>, loan_id: Uuid, account: &str) -> i64 {
    desk.balances(loan_id).await[format!("{account}_minor")].as_str().expect("digits").parse().expect("digits")
}

/// The accounts as of the end of a day.
pub async fn as_of(desk: &Desk<'_>, loan_id: Uuid, day: Date) -> Value {
    desk.get(&format!("/api/loans/{loan_id}/ledger?asOf={day}")).await.with_status(200)["balances"].clone()
}

/// Everything that was published was handled.
pub async fn quiet(office: &Office) {
    let waiting = "SELECT (SELECT coalesce(sum(depth), 0) FROM onceward.queue_stats(1000))::bigint
                          + (SELECT count(*) FROM onceward.deferred)";
    eventually("everything is handled", || async { (office.ask::<i64>(waiting, &[]).await == 0).then_some(()) }).await;
}

/// Every posting balances, and so do all together; the kept balances are those of the lines.
pub async fn books_are_right(office: &Office) {
    let unbalanced =
        "SELECT count(*) FROM (SELECT event_id FROM ledger.ledger_entry GROUP BY tenant_id, event_id, currency
                      HAVING sum(debit_minor) <> sum(credit_minor)) AS wrong";
    assert_eq!(office.ask::<i64>(unbalanced, &[]).await, 0);
    let drafts = "SELECT count(*) FROM ledger.ledger_event WHERE finalized_at IS NULL";
    assert_eq!(office.ask::<i64>(drafts, &[]).await, 0);
    let differing = "SELECT count(*) FROM ledger.balance b FULL JOIN (
                         SELECT tenant_id, loan_id, account, currency, sum(debit_minor - credit_minor) AS balance
                         FROM ledger.ledger_entry GROUP BY 1, 2, 3, 4) n USING (tenant_id, loan_id, account, currency)
                     WHERE coalesce(b.balance_minor, 0) <> coalesce(n.balance, 0)";
    assert_eq!(office.ask::<i64>(differing, &[]).await, 0);
}

/// Messages of this type that were published.
pub async fn published(office: &Office, event_type: &str) -> i64 {
    let (name, version) = event_type.rsplit_once(".v").expect("a type with its version");
    let version: i16 = version.parse().expect("a version");
    let sql = "SELECT count(DISTINCT id) FROM onceward.message_log WHERE event_type = $1 AND version = $2";
    office.ask(sql, &[&name, &version]).await
}
