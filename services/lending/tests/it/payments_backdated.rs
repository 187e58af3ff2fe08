//! Payments that take effect before earlier postings.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use jiff::civil::Date;
use serde_json::{Value, json};
use uuid::Uuid;

fn with_late_fee() -> Value {
    json!({"late_fee": {"grace_days": 2, "charge": {"kind": "flat", "amount_minor": "700"}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_payment_counts_from_its_effective_day() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let [late, in_time] = [funded_loan(&client, 40, json!({})).await, funded_loan(&client, 40, json!({})).await];
    fixture.run_daily_work("acme", days_ago(9)).await;
    submit_and_post(&client, &mock_payment_on(in_time, "b1", 5_000, days_ago(9))).await;
    for days in (0..9).rev() {
        fixture.run_daily_work("acme", days_ago(days)).await;
        if days == 4 {
            for (loan_id, txn) in [(late, "a2"), (in_time, "b2")] {
                submit_and_post(&client, &mock_payment_on(loan_id, txn, 7_000, days_ago(4))).await;
            }
        }
    }
    let first = submit_and_post(&client, &mock_payment_on(late, "a1", 5_000, days_ago(9))).await;
    assert_eq!(first["ledger"][0]["effective_date"], json!(days_ago(9)));
    for days in 0..=10 {
        let day = days_ago(days);
        assert_eq!(as_of(&client, late, day).await, as_of(&client, in_time, day).await, "as of {day}");
    }
    assert_eq!(client.balances(late).await, client.balances(in_time).await);

    let second = client.postings(late, "posting.payment.v1").await;
    let again = second.iter().find(|event| event["correlation_id"].as_str().unwrap().contains(":replay:1"));
    let again = again.expect("the second payment is posted again");
    let payment_id = id(&json!(again["correlation_id"].as_str().unwrap()[8..44].to_owned()));
    let payment = self::payment(&client, payment_id).await;
    assert_eq!(payment["reposts"].as_array().unwrap().len(), 1);
    assert_eq!(payment["reposts"][0]["because"], "backdated");
    assert_eq!(payment["reposts"][0]["caused_by"], first["payment_id"]);
    assert_eq!(payment["ledger"].as_array().unwrap().len(), 3, "posted, reversed, posted again");
    assert_eq!(fixture.count_audit_entries("acme", "loan_replayed").await, 1);
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_fee_is_reversed_when_a_backdated_payment_was_in_time() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let [late, in_time] =
        [funded_loan(&client, 38, with_late_fee()).await, funded_loan(&client, 38, with_late_fee()).await];
    fixture.run_daily_work("acme", days_ago(8)).await;
    submit_and_post(&client, &mock_payment_on(in_time, "b1", 11_000, days_ago(8))).await;
    for days in (0..8).rev() {
        fixture.run_daily_work("acme", days_ago(days)).await;
    }
    assert_eq!(balance(&client, late, "fees_receivable").await, 700);
    assert_eq!(balance(&client, in_time, "fees_receivable").await, 0);
    submit_and_post(&client, &mock_payment_on(late, "a2", 3_000, today())).await;
    submit_and_post(&client, &mock_payment_on(in_time, "b2", 3_000, today())).await;
    submit_and_post(&client, &mock_payment_on(late, "a1", 11_000, days_ago(8))).await;
    for days in 0..=9 {
        let day = days_ago(days);
        assert_eq!(as_of(&client, late, day).await, as_of(&client, in_time, day).await, "as of {day}");
    }
    assert_books_balance(&fixture).await;
}

/// A small pseudo-random generator, so that a failing seed can be repeated.
struct PseudoRandom(u64);

impl PseudoRandom {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// When a payment takes effect and when it arrives, both in days ago.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    counts: i64,
    comes: i64,
    amount: i64,
}

async fn pay(client: &ApiClient<'_>, loan_id: Uuid, arrivals: &[Arrival], dice: &mut PseudoRandom, days: i64) {
    let mut now: Vec<&Arrival> = arrivals.iter().filter(|arrival| arrival.comes == days).collect();
    while !now.is_empty() {
        let next = now.swap_remove(usize::try_from(dice.roll(now.len() as u64)).unwrap());
        let day: Date = days_ago(next.counts);
        submit_and_post(client, &mock_payment_on(loan_id, &format!("{loan_id}-{}", next.counts), next.amount, day))
            .await;
    }
}

/// Posts a payment that will bounce, somewhere among the others.
async fn pay_and_expect_return(client: &ApiClient<'_>, loan_id: Uuid, dice: &mut PseudoRandom, days: i64) -> Uuid {
    let counts = days + i64::try_from(dice.roll(u64::try_from(10 - days).unwrap())).unwrap();
    let amount = i64::try_from(dice.roll(9_000)).unwrap() + 50;
    let body = mock_payment_on(loan_id, &format!("{loan_id}-bounced"), amount, days_ago(counts));
    id(&submit_and_post(client, &body).await["payment_id"])
}

async fn return_payment(client: &ApiClient<'_>, payment_id: Uuid) {
    let path = format!("/api/payments/{payment_id}/return");
    client.post(&path, &json!({"reason": "R01"})).await.with_status(202);
    wait_for_status(client, payment_id, "returned").await;
}

/// Checks that the same payments, in any order and with others that bounced, lead to the same books on every day.
async fn assert_any_order_leaves_the_same_books(seed: u64, terms: Value) {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let mut dice = PseudoRandom(seed);
    let mut loans = Vec::new();
    for _ in 0..4 {
        loans.push(funded_loan(&client, 39, terms.clone()).await);
    }
    let counts: Vec<i64> = (0..=9).filter(|_| dice.roll(3) > 0).collect();
    let payments: Vec<(i64, i64)> =
        counts.iter().map(|counts| (*counts, i64::try_from(dice.roll(9_000)).unwrap() + 50)).collect();
    let mut to_be_returned = Vec::new();
    let mut plans: Vec<Vec<Arrival>> = Vec::new();
    for nth in 0..loans.len() {
        let plan = payments.iter().map(|(counts, amount)| {
            let delay = if nth == 0 { 0 } else { i64::try_from(dice.roll(*counts as u64 + 1)).unwrap() };
            Arrival { counts: *counts, comes: counts - delay, amount: *amount }
        });
        plans.push(plan.collect());
    }
    for days in (0..=9).rev() {
        fixture.run_daily_work("acme", days_ago(days)).await;
        for (nth, (loan_id, plan)) in loans.iter().zip(&plans).enumerate() {
            pay(&client, *loan_id, plan, &mut dice, days).await;
            if nth > 1 && days == 5 {
                to_be_returned.push(pay_and_expect_return(&client, *loan_id, &mut dice, days).await);
            }
        }
    }
    for payment_id in to_be_returned {
        return_payment(&client, payment_id).await;
    }
    wait_until_idle(&fixture).await;
    for (nth, loan_id) in loans.iter().enumerate().skip(1) {
        for days in 0..=10 {
            let day = days_ago(days);
            let (found, expected) = (as_of(&client, *loan_id, day).await, as_of(&client, loans[0], day).await);
            assert_eq!(found, expected, "seed {seed}, as of {day}, in the order of {:?}", plans[nth]);
        }
        assert_eq!(client.balances(*loan_id).await, client.balances(loans[0]).await, "seed {seed}");
    }
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_in_any_order_leave_the_same_books() {
    for seed in [1, 7] {
        assert_any_order_leaves_the_same_books(seed, json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_in_any_order_leave_the_same_books_with_late_fees_escrow_and_held_prepayments() {
    let mut terms = with_late_fee();
    terms["escrow"] = json!({"monthly_minor": "1500"});
    terms["prepayment"] = json!("hold");
    for seed in [3, 11] {
        assert_any_order_leaves_the_same_books(seed, terms.clone()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_can_request_that_a_payment_be_posted_again() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let payment_id =
        id(&submit_and_post(&client, &mock_payment_on(loan_id, "t1", 4_000, days_ago(3))).await["payment_id"]);
    submit_and_post(&client, &mock_payment_on(loan_id, "t2", 100, today())).await;
    let before = client.balances(loan_id).await;
    client.post(&format!("/api/payments/{payment_id}/post"), &Value::Null).await.with_status(202);
    wait_until_idle(&fixture).await;
    let payment = self::payment(&client, payment_id).await;
    assert_eq!(payment["reposts"][0]["because"], "asked_for", "{payment}");
    assert_eq!(payment["command"]["state"], "done");
    assert_eq!(client.balances(loan_id).await, before, "the same rules lead to the same books");
    assert_eq!(published(&fixture, "payment.posted.v1").await, 2);
    assert_eq!(published(&fixture, "payment.reposted.v1").await, 2);
    assert_books_balance(&fixture).await;
}
