//! The validator, rule by rule, through the pipeline.

use crate::payments_support::*;
use crate::support::{Desk, Office};
use serde_json::{Value, json};
use uuid::Uuid;

async fn fails(desk: &Desk<'_>, body: &Value) -> String {
    let payment = becomes(desk, accepted(desk, body).await, "failed").await;
    assert_eq!((payment["validation"]["is_valid"].clone(), payment["posting"].clone()), (json!(false), Value::Null));
    payment["validation"]["reason"].as_str().expect("a reason").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_breaks_a_rule_fails_with_its_word_and_is_never_posted() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    let mut euro = mock(loan_id, "euro", 100);
    euro["currency"] = json!("EUR");
    desk.product("waiting", json!({})).await;
    let created = desk.loan("waiting", json!({})).await;
    let tomorrow = today().tomorrow().expect("there is one");
    for (body, reason) in [
        (euro, "currency"),
        (mock_on(loan_id, "stale", 100, days_ago(11)), "stale_effective_date"),
        (mock_on(loan_id, "future", 100, tomorrow), "future_effective_date"),
        (mock(loan_id, "large", 500_000_001), "amount_too_large"),
        (mock(created, "created", 100), "loan_status"),
    ] {
        assert_eq!(fails(&desk, &body).await, reason, "{body}");
    }
    quiet(&office).await;
    assert_eq!(published(&office, "payment.failed.v1").await, 5);
    assert_eq!(published(&office, "payment.validated.v1").await, 0);
    let seen = "SELECT count(*) FROM lending.payment_event WHERE event_type = 'payment.failed.v1'";
    assert_eq!(office.ask::<i64>(seen, &[]).await, 5);
    assert_eq!(office.audited("acme", "payment_failed").await, 5);
    assert_eq!(balance(&desk, loan_id, "cash").await, 0);
    posted(&desk, &mock_on(loan_id, "ten days", 100, days_ago(10))).await;
    posted(&desk, &mock(loan_id, "largest", 500_000_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hook_for_borrowers_may_say_no() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    posted(&desk, &mock(loan_id, "before", 100)).await;
    let no = "CREATE OR REPLACE FUNCTION lending.borrower_eligible(p_borrower_entity_id uuid) RETURNS boolean
              LANGUAGE sql STABLE AS $$ SELECT false $$";
    office.owner.batch_execute(no).await.expect("the owner may replace it");
    assert_eq!(fails(&desk, &mock(loan_id, "after", 100)).await, "borrower_not_eligible");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_failed_stays_failed_and_cannot_be_posted_or_returned() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    let payment_id = accepted(&desk, &mock(loan_id, "large", 500_000_001)).await;
    becomes(&desk, payment_id, "failed").await;
    desk.post(&format!("/api/payments/{payment_id}/return"), &json!({"reason": "R01"})).await.with_status(409);
    desk.post(&format!("/api/payments/{payment_id}/post"), &Value::Null).await.with_status(409);
    desk.post(&format!("/api/payments/{}/return", Uuid::now_v7()), &json!({"reason": "R01"})).await.with_status(404);
    take_in(&desk, &mock(loan_id, "large", 500_000_001)).await.with_status(200);
    quiet(&office).await;
    assert_eq!(published(&office, "payment.failed.v1").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_bankruptcy_a_payment_is_taken_and_held() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    desk.change(loan_id, json!({"action": "change_status", "status": "bankruptcy"})).await;
    let payment = posted(&desk, &mock(loan_id, "held", 5000)).await;
    assert_eq!(applied(&payment["posting"]), [("future".to_owned(), 5000)]);
    assert_eq!(payment["posting"]["held"], true);
    assert_eq!(balance(&desk, loan_id, "suspense").await, 5000);
}
