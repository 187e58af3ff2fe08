//! Money in suspense until something is due, the loan ends, or it is refunded.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use onceward_testkit::{eventually, left_out, rabbitmq_url};
use serde_json::{Value, json};
use uuid::Uuid;

async fn quote(client: &ApiClient<'_>, loan_id: Uuid) -> i64 {
    let quote = client.get(&format!("/api/loans/{loan_id}/payoff?goodThrough={}", today())).await.with_status(200);
    quote["total_minor"].as_str().expect("digits").parse().expect("digits")
}

async fn status(client: &ApiClient<'_>, loan_id: Uuid) -> Value {
    client.get(&format!("/api/loans/{loan_id}")).await.with_status(200)["status"].clone()
}

/// A payment whose sender requests that it be held.
fn to_be_held(loan_id: Uuid, txn: &str, amount_minor: i64) -> Value {
    let mut body = mock_payment(loan_id, txn, amount_minor);
    body["allocation_hints"] = json!({"bucket": "future"});
    body
}

async fn assert_nothing_is_left(client: &ApiClient<'_>, loan_id: Uuid) {
    for account in ["loan_principal", "interest_receivable", "fees_receivable", "escrow_liability", "suspense"] {
        assert_eq!(balance(client, loan_id, account).await, 0, "{account}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paying_the_quote_ends_a_loan_with_suspense_under_every_policy() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    for prepayment in ["hold", "reduce_principal"] {
        let loan_id = funded_loan(&client, 20, json!({ "prepayment": prepayment })).await;
        submit_and_post(&client, &to_be_held(loan_id, &format!("{prepayment}-1"), 50_000)).await;
        assert_eq!(balance(&client, loan_id, "suspense").await, 50_000);
        let total = quote(&client, loan_id).await;
        assert!((70_000..72_000).contains(&total), "{total}");
        let payoff = submit_and_post(&client, &mock_payment(loan_id, &format!("{prepayment}-2"), total)).await;
        wait_until_idle(&fixture).await;
        assert_eq!(status(&client, loan_id).await, "paid_off", "{payoff}");
        assert_nothing_is_left(&client, loan_id).await;
        let applied = applied(&payoff["posting"]);
        assert_eq!(applied.iter().map(|(_, amount)| amount).sum::<i64>(), total, "{applied:?}");
        assert_eq!(applied.last().unwrap(), &("future".to_owned(), -50_000), "suspense is used in the same posting");

        // Its return leaves the held amount unchanged.
        let payment_id = id(&payoff["payment_id"]);
        client.post(&format!("/api/payments/{payment_id}/return"), &json!({"reason": "R01"})).await.with_status(202);
        wait_for_status(&client, payment_id, "returned").await;
        assert_eq!(status(&client, loan_id).await, "active");
        assert_eq!(balance(&client, loan_id, "suspense").await, 50_000);
        assert_eq!(balance(&client, loan_id, "loan_principal").await, 120_000);
    }
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspense_that_covers_the_debt_ends_the_loan_on_request() {
    held_money_ends_the_loan(&LendingFixture::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspense_is_allocated_over_rabbitmq() {
    if !left_out("rabbitmq") {
        held_money_ends_the_loan(&LendingFixture::start_on(Some(&rabbitmq_url())).await).await;
    }
}

async fn held_money_ends_the_loan(fixture: &LendingFixture) {
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 20, json!({"prepayment": "hold"})).await;
    submit_and_post(&client, &to_be_held(loan_id, "all", 130_000)).await;
    assert_eq!((quote(&client, loan_id).await, status(&client, loan_id).await), (0, json!("active")));
    let asked = client.post("/api/payments/allocate", &json!({"loan_id": loan_id})).await.with_status(202);
    assert_matches_schema(&client, "payment.allocation.accepted.v1", &asked);
    eventually("the loan is paid off", || async { (status(&client, loan_id).await == "paid_off").then_some(()) }).await;
    wait_until_idle(fixture).await;
    assert!(balance(&client, loan_id, "suspense").await > 8_000);
    let refunded = client.change(loan_id, json!({"action": "refund_suspense"})).await;
    assert_eq!(refunded["state"], "done", "{refunded}");
    assert_nothing_is_left(&client, loan_id).await;
    assert_books_balance(fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overpaid_loan_can_be_closed_after_its_suspense_is_refunded() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 20, json!({})).await;
    let total = quote(&client, loan_id).await;
    let overpaid = submit_and_post(&client, &mock_payment(loan_id, "over", total + 1_000)).await;
    wait_until_idle(&fixture).await;
    let refused = client.change(loan_id, json!({"action": "close"})).await;
    assert!(refused["reason"].as_str().unwrap().contains("suspense holds 1000"), "{refused}");
    for (body, reason) in [
        (json!({"amount_minor": "1001"}), "suspense held 1000"),
        (json!({"amount_minor": "1000", "effective_date": days_ago(1)}), "interest is booked up to"),
        (json!({"effective_date": today().tomorrow().unwrap()}), "in the future"),
    ] {
        let mut body = body;
        body["action"] = json!("refund_suspense");
        let refused = client.change(loan_id, body.clone()).await;
        assert_eq!(refused["state"], "refused", "{body}");
        assert!(refused["reason"].as_str().unwrap().contains(reason), "{body}: {refused}");
    }
    assert_eq!(balance(&client, loan_id, "suspense").await, 1_000, "the refused request changed nothing");

    // The same request twice leads to one refund.
    let key = Uuid::now_v7().to_string();
    let body = json!({"action": "refund_suspense", "amount_minor": "400", "reason": "asked by letter"});
    for _ in 0..2 {
        let request = client.request(reqwest::Method::PATCH, &format!("/api/loans/{loan_id}"));
        let response = request.header("idempotency-key", &key).json(&body).send().await.expect("an answer");
        assert_eq!(response.status(), 202);
        assert_eq!(client.wait_until_settled(loan_id).await["state"], "done");
    }
    assert_eq!(balance(&client, loan_id, "suspense").await, 600);
    client.change(loan_id, json!({"action": "refund_suspense"})).await;
    assert_nothing_is_left(&client, loan_id).await;
    assert_eq!(balance(&client, loan_id, "cash").await, total);
    wait_until_idle(&fixture).await;
    assert_eq!(client.postings(loan_id, "posting.suspense_refund.v1").await.len(), 2);
    assert_eq!(published(&fixture, "payment.suspense_refunded.v1").await, 2);
    assert_eq!(fixture.count_audit_entries("acme", "suspense_refunded").await, 2);

    // The payment is returned after the refund: the refund is owed as well, and paying a quote settles all of it.
    let payment_id = id(&overpaid["payment_id"]);
    client.post(&format!("/api/payments/{payment_id}/return"), &json!({"reason": "R01"})).await.with_status(202);
    wait_for_status(&client, payment_id, "returned").await;
    assert_eq!(status(&client, loan_id).await, "active");
    assert_eq!(balance(&client, loan_id, "suspense").await, -1_000);
    assert_eq!(quote(&client, loan_id).await, total + 1_000);
    submit_and_post(&client, &mock_payment(loan_id, "again", total + 1_000)).await;
    wait_until_idle(&fixture).await;
    assert_nothing_is_left(&client, loan_id).await;
    let closed = client.change(loan_id, json!({"action": "close"})).await;
    assert_eq!((&closed["state"], &closed["status"]), (&json!("done"), &json!("closed")), "{closed}");
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspense_pays_an_instalment_on_its_due_date_once() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 35, json!({"prepayment": "hold"})).await;
    let schedule = client.get(&format!("/api/loans/{loan_id}/schedule")).await.with_status(200);
    fixture.run_daily_work("acme", days_ago(9)).await;
    submit_and_post(&client, &mock_payment_on(loan_id, "early", 15_000, days_ago(9))).await;
    let held = balance(&client, loan_id, "suspense").await;
    assert!(held > 10_000, "{held}");
    for days in (0..9).rev() {
        fixture.run_daily_work("acme", days_ago(days)).await;
    }
    // A repeated tick has no effect.
    fixture.tick("acme", today()).await;
    wait_until_idle(&fixture).await;
    let events = client.postings(loan_id, "posting.allocation.v1").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["effective_date"], schedule["rows"][0]["due_date"]);
    assert_eq!(published(&fixture, "payment.allocated.v1").await, 1);
    assert_eq!(fixture.count_audit_entries("acme", "suspense_allocated").await, 1);
    let left = balance(&client, loan_id, "suspense").await;
    assert!(left < held, "{left} of {held}");
    assert_eq!(balance(&client, loan_id, "cash").await, 15_000, "no new money");

    // Nothing is due, so the request moves nothing; a late payment is divided before it, and everything is applied
    // again.
    client
        .post("/api/payments/allocate", &json!({"loan_id": loan_id, "effective_date": days_ago(1)}))
        .await
        .with_status(202);
    client.post("/api/payments/allocate", &json!({"loan_id": Uuid::now_v7()})).await.with_status(404);
    wait_until_idle(&fixture).await;
    submit_and_post(&client, &mock_payment_on(loan_id, "late", 300, days_ago(8))).await;
    wait_until_idle(&fixture).await;
    assert_eq!(balance(&client, loan_id, "cash").await, 15_300);
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_of_the_daily_run_due_dates_are_processed_in_order() {
    let fixture = LendingFixture::start().await;
    let (daily, late) = (fixture.client("acme"), fixture.client("globex"));
    let terms =
        json!({"prepayment": "hold", "late_fee": {"grace_days": 1, "charge": {"kind": "flat", "amount_minor": "900"}}});
    let serviced = funded_loan(&daily, 35, terms.clone()).await;
    let waiting = funded_loan(&late, 35, terms).await;
    fixture.run_daily_work("acme", days_ago(9)).await;
    for (client, loan_id) in [(&daily, serviced), (&late, waiting)] {
        submit_and_post(client, &mock_payment_on(loan_id, "early", 15_000, days_ago(9))).await;
    }
    for days in (1..9).rev() {
        fixture.run_daily_work("acme", days_ago(days)).await;
    }
    // The due date was days ago; a later posting runs the overdue allocation first.
    for (client, loan_id) in [(&daily, serviced), (&late, waiting)] {
        submit_and_post(client, &mock_payment_on(loan_id, "next", 700, days_ago(1))).await;
    }
    for tenant in ["acme", "globex"] {
        fixture.run_daily_work(tenant, today()).await;
    }
    wait_until_idle(&fixture).await;
    for days in 0..=10 {
        let day = days_ago(days);
        let (found, expected) = (as_of(&late, waiting, day).await, as_of(&daily, serviced, day).await);
        for account in ["loan_principal_minor", "suspense_minor", "cash_minor", "fees_receivable_minor"] {
            assert_eq!(found[account], expected[account], "{account} as of {day}");
        }
    }
    assert_eq!(late.balances(waiting).await, daily.balances(serviced).await);
    assert_eq!(late.postings(waiting, "posting.allocation.v1").await.len(), 1);
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_bankruptcy_suspense_is_applied_only_on_request() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 35, json!({})).await;
    let stay = json!({"action": "change_status", "status": "bankruptcy", "effective_date": days_ago(10)});
    assert_eq!(client.change(loan_id, stay).await["status"], "bankruptcy");
    submit_and_post(&client, &mock_payment_on(loan_id, "held", 15_000, days_ago(9))).await;
    fixture.run_daily_work("acme", today()).await;
    assert_eq!(balance(&client, loan_id, "suspense").await, 15_000, "the court decides");
    client.post("/api/payments/allocate", &json!({"loan_id": loan_id})).await.with_status(202);
    wait_until_idle(&fixture).await;
    assert_eq!(balance(&client, loan_id, "interest_receivable").await, 0);
    assert!(balance(&client, loan_id, "loan_principal").await < 120_000);
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refunded_suspense_is_not_used_by_a_late_payment() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 20, json!({"prepayment": "hold"})).await;
    submit_and_post(&client, &mock_payment_on(loan_id, "held", 50_000, days_ago(5))).await;
    fixture.run_daily_work("acme", today()).await;
    let held = balance(&client, loan_id, "suspense").await;
    assert_eq!(client.change(loan_id, json!({"action": "refund_suspense"})).await["state"], "done");
    // Together with the amount held on its day, it would have ended the loan.
    submit_and_post(&client, &mock_payment_on(loan_id, "late", 75_000, days_ago(4))).await;
    wait_until_idle(&fixture).await;
    assert_eq!(status(&client, loan_id).await, "active");
    for days in 0..=5 {
        let suspense: i64 =
            as_of(&client, loan_id, days_ago(days)).await["suspense_minor"].as_str().unwrap().parse().unwrap();
        assert!(suspense >= 0, "{suspense} {days} days ago");
    }
    assert_eq!(balance(&client, loan_id, "cash").await, 125_000 - held);
    assert_books_balance(&fixture).await;
}
