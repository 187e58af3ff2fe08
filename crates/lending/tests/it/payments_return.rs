//! Payments that come back.

use crate::payments_support::*;
use crate::support::{Answer, Desk, Office};
use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

async fn give_back(desk: &Desk<'_>, payment_id: Uuid, body: Value) -> Answer {
    desk.post(&format!("/api/payments/{payment_id}/return"), &body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_returned_payment_had_paid_is_open_again_once() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    let untouched = funded_loan(&desk, 31, json!({})).await;
    office.serve_day("acme", today()).await;
    let payment_id = id(&posted(&desk, &mock_on(loan_id, "nsf", 12_000, days_ago(5))).await["payment_id"]);
    posted(&desk, &mock_on(untouched, "other", 100, days_ago(5))).await;
    assert!(balance(&desk, loan_id, "loan_principal").await < 120_000);

    let asked =
        join_all((0..5).map(|_| give_back(&desk, payment_id, json!({"reason": "R01", "fee_minor": "2500"})))).await;
    assert!(asked.iter().all(|answer| [202, 409].contains(&answer.status)), "{asked:?}");
    let payment = becomes(&desk, payment_id, "returned").await;
    quiet(&office).await;

    assert_eq!(balance(&desk, loan_id, "cash").await, 0);
    assert_eq!(balance(&desk, loan_id, "loan_principal").await, 120_000);
    assert_eq!(balance(&desk, loan_id, "fees_receivable").await, 2500, "one fee");
    assert_eq!(payment["return"]["reason"], "R01");
    assert_eq!(payment["return"]["fee_minor"], "2500");
    let ledger = payment["ledger"].as_array().unwrap();
    let reversal = ledger.iter().find(|event| event["reverses"] == payment["posting"]["event_id"]).expect("a reversal");
    assert_eq!(reversal["correlation_id"], format!("payment:{payment_id}:return"));
    assert_eq!(published(&office, "payment.returned.v1").await, 1);
    assert_eq!(office.audited("acme", "payment_returned").await, 1);
    give_back(&desk, payment_id, json!({"reason": "R01"})).await.with_status(409);
    desk.post(&format!("/api/payments/{payment_id}/post"), &Value::Null).await.with_status(409);

    // Interest is what it would have been without the payment.
    let never_paid = funded_loan(&desk, 31, json!({})).await;
    office.serve_day("acme", today()).await;
    let interest = balance(&desk, never_paid, "interest_receivable").await;
    assert_eq!(balance(&desk, loan_id, "interest_receivable").await, interest);
    books_are_right(&office).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_payments_pay_what_a_returned_one_leaves_open() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let [with, without] = [funded_loan(&desk, 40, json!({})).await, funded_loan(&desk, 40, json!({})).await];
    for days in (0..=9).rev() {
        office.serve_day("acme", days_ago(days)).await;
    }
    let bounced = id(&posted(&desk, &mock_on(with, "bounced", 10_662, days_ago(8))).await["payment_id"]);
    for loan_id in [with, without] {
        posted(&desk, &mock_on(loan_id, &format!("good-{loan_id}"), 10_662, days_ago(3))).await;
    }
    give_back(&desk, bounced, json!({"reason": "R02", "returned_on": days_ago(1)})).await.with_status(202);
    becomes(&desk, bounced, "returned").await;
    for day in [days_ago(8), days_ago(4), days_ago(3), today()] {
        assert_eq!(as_of(&desk, with, day).await, as_of(&desk, without, day).await, "{day}");
    }
    let good = desk.postings(with, "posting.payment.v1").await;
    assert_eq!(good.len(), 3, "the bounced one, the good one, and the good one again");
    assert_eq!(published(&office, "payment.reposted.v1").await, 1);
    assert_eq!(office.audited("acme", "payment_replayed").await, 1);
    books_are_right(&office).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_that_was_paid_off_is_active_again_when_the_payment_comes_back() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 20, json!({})).await;
    let payoff = desk.get(&format!("/api/loans/{loan_id}/payoff?goodThrough={}", today())).await.with_status(200);
    let total: i64 = payoff["total_minor"].as_str().expect("a total").parse().unwrap();
    let payment_id = id(&posted(&desk, &mock(loan_id, "all", total)).await["payment_id"]);
    quiet(&office).await;
    let status = async || desk.get(&format!("/api/loans/{loan_id}")).await.with_status(200)["status"].clone();
    assert_eq!(status().await, "paid_off");
    give_back(&desk, payment_id, json!({"reason": "R10"})).await.with_status(202);
    becomes(&desk, payment_id, "returned").await;
    assert_eq!(status().await, "active");
    assert_eq!(balance(&desk, loan_id, "loan_principal").await, 120_000);
    books_are_right(&office).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_return_waits_for_its_payment_to_be_posted() {
    let mut office = Office::without_consumers(onceward_lending::Settings::default(), None).await;
    office.platform.run_consumers();
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 20, json!({})).await;
    let payment_id = accepted(&desk, &mock(loan_id, "quick", 500)).await;
    give_back(&desk, payment_id, json!({"reason": "R01"})).await.with_status(202);
    becomes(&desk, payment_id, "returned").await;
    assert_eq!(balance(&desk, loan_id, "cash").await, 0);
    for wrong in [json!({}), json!({"reason": ""}), json!({"reason": "R01", "fee_minor": "-5"})] {
        give_back(&desk, payment_id, wrong).await.with_status(422);
    }
    let tomorrow = today().tomorrow().expect("there is one");
    let other = id(&posted(&desk, &mock(loan_id, "other", 500)).await["payment_id"]);
    give_back(&desk, other, json!({"reason": "R01", "returned_on": tomorrow})).await.with_status(409);
}
