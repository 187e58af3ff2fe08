//! The validator, rule by rule, through the pipeline.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use serde_json::{Value, json};
use uuid::Uuid;

async fn fails(client: &ApiClient<'_>, body: &Value) -> String {
    let payment = wait_for_status(client, submit_new(client, body).await, "failed").await;
    assert_eq!((payment["validation"]["is_valid"].clone(), payment["posting"].clone()), (json!(false), Value::Null));
    payment["validation"]["reason"].as_str().expect("a reason").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_breaks_a_rule_fails_with_its_reason_code_and_is_never_posted() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let mut euro = mock_payment(loan_id, "euro", 100);
    euro["currency"] = json!("EUR");
    client.product("waiting", json!({})).await;
    let created = client.loan("waiting", json!({})).await;
    let tomorrow = today().tomorrow().expect("tomorrow exists");
    for (body, reason) in [
        (euro, "currency"),
        (mock_payment_on(loan_id, "stale", 100, days_ago(11)), "stale_effective_date"),
        (mock_payment_on(loan_id, "future", 100, tomorrow), "future_effective_date"),
        (mock_payment(loan_id, "large", 500_000_001), "amount_too_large"),
        (mock_payment(created, "created", 100), "loan_status"),
    ] {
        assert_eq!(fails(&client, &body).await, reason, "{body}");
    }
    wait_until_idle(&fixture).await;
    assert_eq!(published(&fixture, "payment.failed.v1").await, 5);
    assert_eq!(published(&fixture, "payment.validated.v1").await, 0);
    let seen = "SELECT count(*) FROM lending.payment_event WHERE event_type = 'payment.failed.v1'";
    assert_eq!(fixture.query_value::<i64>(seen, &[]).await, 5);
    assert_eq!(fixture.count_audit_entries("acme", "payment_failed").await, 5);
    assert_eq!(balance(&client, loan_id, "cash").await, 0);
    submit_and_post(&client, &mock_payment_on(loan_id, "ten days", 100, days_ago(10))).await;
    submit_and_post(&client, &mock_payment(loan_id, "largest", 500_000_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_eligibility_hook_can_reject_a_borrower() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    submit_and_post(&client, &mock_payment(loan_id, "before", 100)).await;
    let no = "CREATE OR REPLACE FUNCTION lending.borrower_eligible(p_borrower_entity_id uuid) RETURNS boolean
              LANGUAGE sql STABLE AS $$ SELECT false $$";
    fixture.owner.batch_execute(no).await.expect("the owner may replace it");
    assert_eq!(fails(&client, &mock_payment(loan_id, "after", 100)).await, "borrower_not_eligible");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_payment_can_neither_be_posted_nor_returned() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let payment_id = submit_new(&client, &mock_payment(loan_id, "large", 500_000_001)).await;
    wait_for_status(&client, payment_id, "failed").await;
    client.post(&format!("/api/payments/{payment_id}/return"), &json!({"reason": "R01"})).await.with_status(409);
    client.post(&format!("/api/payments/{payment_id}/post"), &Value::Null).await.with_status(409);
    client.post(&format!("/api/payments/{}/return", Uuid::now_v7()), &json!({"reason": "R01"})).await.with_status(404);
    submit(&client, &mock_payment(loan_id, "large", 500_000_001)).await.with_status(200);
    wait_until_idle(&fixture).await;
    assert_eq!(published(&fixture, "payment.failed.v1").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_bankruptcy_a_payment_is_accepted_and_held() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    client.change(loan_id, json!({"action": "change_status", "status": "bankruptcy"})).await;
    let payment = submit_and_post(&client, &mock_payment(loan_id, "held", 5000)).await;
    assert_eq!(applied(&payment["posting"]), [("future".to_owned(), 5000)]);
    assert_eq!(payment["posting"]["held"], true);
    assert_eq!(balance(&client, loan_id, "suspense").await, 5000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_failed_at_intake_lists_its_failure() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let mut euro = mock_payment(loan_id, "euro", 100);
    euro["currency"] = json!("EUR");
    let failed = wait_for_status(&client, submit_new(&client, &euro).await, "failed").await;
    let messages = failed["messages"].as_array().expect("a list");
    assert_eq!(messages.len(), 1, "{failed}");
    assert_eq!(messages[0]["type"], "payment.failed.v1");
    assert_eq!(
        messages[0]["correlation_id"], failed["intake"]["idempotency_key"],
        "the same correlation id as in the validator"
    );
}
