//! Returned payments.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use futures_util::future::join_all;
use onceward_testkit::HttpResponse;
use serde_json::{Value, json};
use uuid::Uuid;

async fn request_return(client: &ApiClient<'_>, payment_id: Uuid, body: Value) -> HttpResponse {
    client.post(&format!("/api/payments/{payment_id}/return"), &body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_returned_payment_had_paid_is_owed_again_once() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let untouched = funded_loan(&client, 31, json!({})).await;
    fixture.run_daily_work("acme", today()).await;
    let payment_id =
        id(&submit_and_post(&client, &mock_payment_on(loan_id, "nsf", 12_000, days_ago(5))).await["payment_id"]);
    submit_and_post(&client, &mock_payment_on(untouched, "other", 100, days_ago(5))).await;
    assert!(balance(&client, loan_id, "loan_principal").await < 120_000);

    let asked =
        join_all((0..5).map(|_| request_return(&client, payment_id, json!({"reason": "R01", "fee_minor": "2500"}))))
            .await;
    assert!(asked.iter().all(|response| [202, 409].contains(&response.status)), "{asked:?}");
    let payment = wait_for_status(&client, payment_id, "returned").await;
    wait_until_idle(&fixture).await;

    assert_eq!(balance(&client, loan_id, "cash").await, 0);
    assert_eq!(balance(&client, loan_id, "loan_principal").await, 120_000);
    assert_eq!(balance(&client, loan_id, "fees_receivable").await, 2500, "one fee");
    assert_eq!(payment["return"]["reason"], "R01");
    assert_eq!(payment["return"]["fee_minor"], "2500");
    let ledger = payment["ledger"].as_array().unwrap();
    let reversal = ledger.iter().find(|event| event["reverses"] == payment["posting"]["event_id"]).expect("a reversal");
    assert_eq!(reversal["correlation_id"], format!("payment:{payment_id}:return"));
    assert_eq!(published(&fixture, "payment.returned.v1").await, 1);
    assert_eq!(fixture.count_audit_entries("acme", "payment_returned").await, 1);
    request_return(&client, payment_id, json!({"reason": "R01"})).await.with_status(409);
    client.post(&format!("/api/payments/{payment_id}/post"), &Value::Null).await.with_status(409);

    // Interest is the same as without the payment.
    let never_paid = funded_loan(&client, 31, json!({})).await;
    fixture.run_daily_work("acme", today()).await;
    let interest = balance(&client, never_paid, "interest_receivable").await;
    assert_eq!(balance(&client, loan_id, "interest_receivable").await, interest);
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_payments_pay_what_a_returned_payment_leaves_unpaid() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let [with, without] = [funded_loan(&client, 40, json!({})).await, funded_loan(&client, 40, json!({})).await];
    for days in (0..=9).rev() {
        fixture.run_daily_work("acme", days_ago(days)).await;
    }
    let bounced =
        id(&submit_and_post(&client, &mock_payment_on(with, "bounced", 10_662, days_ago(8))).await["payment_id"]);
    for loan_id in [with, without] {
        submit_and_post(&client, &mock_payment_on(loan_id, &format!("good-{loan_id}"), 10_662, days_ago(3))).await;
    }
    request_return(&client, bounced, json!({"reason": "R02", "returned_on": days_ago(1)})).await.with_status(202);
    wait_for_status(&client, bounced, "returned").await;
    for day in [days_ago(8), days_ago(4), days_ago(3), today()] {
        assert_eq!(as_of(&client, with, day).await, as_of(&client, without, day).await, "{day}");
    }
    let good = client.postings(with, "posting.payment.v1").await;
    assert_eq!(good.len(), 3, "the returned payment, the other one, and the other one again");
    assert_eq!(published(&fixture, "payment.reposted.v1").await, 1);
    assert_eq!(fixture.count_audit_entries("acme", "payment_replayed").await, 1);
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_off_loan_is_active_again_when_its_payment_is_returned() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 20, json!({})).await;
    let payoff = client.get(&format!("/api/loans/{loan_id}/payoff?goodThrough={}", today())).await.with_status(200);
    let total: i64 = payoff["total_minor"].as_str().expect("a total").parse().unwrap();
    let payment_id = id(&submit_and_post(&client, &mock_payment(loan_id, "all", total)).await["payment_id"]);
    wait_until_idle(&fixture).await;
    let status = async || client.get(&format!("/api/loans/{loan_id}")).await.with_status(200)["status"].clone();
    assert_eq!(status().await, "paid_off");
    request_return(&client, payment_id, json!({"reason": "R10"})).await.with_status(202);
    wait_for_status(&client, payment_id, "returned").await;
    assert_eq!(status().await, "active");
    assert_eq!(balance(&client, loan_id, "loan_principal").await, 120_000);
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_return_waits_for_its_payment_to_be_posted() {
    let mut fixture = LendingFixture::without_consumers(onceward_lending::Settings::default(), None).await;
    fixture.platform.run_consumers();
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 20, json!({})).await;
    let payment_id = submit_new(&client, &mock_payment(loan_id, "quick", 500)).await;
    request_return(&client, payment_id, json!({"reason": "R01"})).await.with_status(202);
    wait_for_status(&client, payment_id, "returned").await;
    assert_eq!(balance(&client, loan_id, "cash").await, 0);
    for wrong in [json!({}), json!({"reason": ""}), json!({"reason": "R01", "fee_minor": "-5"})] {
        request_return(&client, payment_id, wrong).await.with_status(422);
    }
    let tomorrow = today().tomorrow().expect("tomorrow exists");
    let other = id(&submit_and_post(&client, &mock_payment(loan_id, "other", 500)).await["payment_id"]);
    request_return(&client, other, json!({"reason": "R01", "returned_on": tomorrow})).await.with_status(409);
}
