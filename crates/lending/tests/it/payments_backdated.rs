//! Payments that take effect before what is posted already.

use crate::payments_support::*;
use crate::support::{Desk, Office};
use jiff::civil::Date;
use serde_json::{Value, json};
use uuid::Uuid;

fn with_late_fee() -> Value {
    json!({"late_fee": {"grace_days": 2, "charge": {"kind": "flat", "amount_minor": "700"}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_comes_late_counts_from_its_day() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let [late, in_time] = [funded_loan(&desk, 40, json!({})).await, funded_loan(&desk, 40, json!({})).await];
    office.serve_day("acme", days_ago(9)).await;
    posted(&desk, &mock_on(in_time, "b1", 5_000, days_ago(9))).await;
    for days in (0..9).rev() {
        office.serve_day("acme", days_ago(days)).await;
        if days == 4 {
            for (loan_id, txn) in [(late, "a2"), (in_time, "b2")] {
                posted(&desk, &mock_on(loan_id, txn, 7_000, days_ago(4))).await;
            }
        }
    }
    let first = posted(&desk, &mock_on(late, "a1", 5_000, days_ago(9))).await;
    assert_eq!(first["ledger"][0]["effective_date"], json!(days_ago(9)));
    for days in 0..=10 {
        let day = days_ago(days);
        assert_eq!(as_of(&desk, late, day).await, as_of(&desk, in_time, day).await, "as of {day}");
    }
    assert_eq!(desk.balances(late).await, desk.balances(in_time).await);

    let second = desk.postings(late, "posting.payment.v1").await;
    let again = second.iter().find(|event| event["correlation_id"].as_str().unwrap().contains(":replay:1"));
    let again = again.expect("the second payment is posted again");
    let payment_id = id(&json!(again["correlation_id"].as_str().unwrap()[8..44].to_owned()));
    let payment = self::payment(&desk, payment_id).await;
    assert_eq!(payment["reposts"].as_array().unwrap().len(), 1);
    assert_eq!(payment["reposts"][0]["because"], "backdated");
    assert_eq!(payment["reposts"][0]["caused_by"], first["payment_id"]);
    assert_eq!(payment["ledger"].as_array().unwrap().len(), 3, "posted, taken back, posted again");
    assert_eq!(office.audited("acme", "loan_replayed").await, 1);
    books_are_right(&office).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_fee_that_a_backdated_payment_makes_wrong_was_never_charged() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let [late, in_time] =
        [funded_loan(&desk, 38, with_late_fee()).await, funded_loan(&desk, 38, with_late_fee()).await];
    office.serve_day("acme", days_ago(8)).await;
    posted(&desk, &mock_on(in_time, "b1", 11_000, days_ago(8))).await;
    for days in (0..8).rev() {
        office.serve_day("acme", days_ago(days)).await;
    }
    assert_eq!(balance(&desk, late, "fees_receivable").await, 700);
    assert_eq!(balance(&desk, in_time, "fees_receivable").await, 0);
    posted(&desk, &mock_on(late, "a2", 3_000, today())).await;
    posted(&desk, &mock_on(in_time, "b2", 3_000, today())).await;
    posted(&desk, &mock_on(late, "a1", 11_000, days_ago(8))).await;
    for days in 0..=9 {
        let day = days_ago(days);
        assert_eq!(as_of(&desk, late, day).await, as_of(&desk, in_time, day).await, "as of {day}");
    }
    books_are_right(&office).await;
}

/// A small generator, so that a failing seed can be run again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// When a payment counts, and on which day it comes to us, both in days ago.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    counts: i64,
    comes: i64,
    amount: i64,
}

async fn pay(desk: &Desk<'_>, loan_id: Uuid, arrivals: &[Arrival], dice: &mut Dice, days: i64) {
    let mut now: Vec<&Arrival> = arrivals.iter().filter(|arrival| arrival.comes == days).collect();
    while !now.is_empty() {
        let next = now.swap_remove(usize::try_from(dice.roll(now.len() as u64)).unwrap());
        let day: Date = days_ago(next.counts);
        posted(desk, &mock_on(loan_id, &format!("{loan_id}-{}", next.counts), next.amount, day)).await;
    }
}

/// A payment that will bounce, somewhere among the others.
async fn pay_in_vain(desk: &Desk<'_>, loan_id: Uuid, dice: &mut Dice, days: i64) -> Uuid {
    let counts = days + i64::try_from(dice.roll(u64::try_from(10 - days).unwrap())).unwrap();
    let amount = i64::try_from(dice.roll(9_000)).unwrap() + 50;
    let body = mock_on(loan_id, &format!("{loan_id}-bounced"), amount, days_ago(counts));
    id(&posted(desk, &body).await["payment_id"])
}

async fn bounce(desk: &Desk<'_>, payment_id: Uuid) {
    let path = format!("/api/payments/{payment_id}/return");
    desk.post(&path, &json!({"reason": "R01"})).await.with_status(202);
    becomes(desk, payment_id, "returned").await;
}

/// The same payments, in whatever order they come and whatever else came and bounced, leave the same books, on every day.
async fn any_order_gives_the_same(seed: u64, terms: Value) {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let mut dice = Dice(seed);
    let mut loans = Vec::new();
    for _ in 0..4 {
        loans.push(funded_loan(&desk, 39, terms.clone()).await);
    }
    let counts: Vec<i64> = (0..=9).filter(|_| dice.roll(3) > 0).collect();
    let payments: Vec<(i64, i64)> =
        counts.iter().map(|counts| (*counts, i64::try_from(dice.roll(9_000)).unwrap() + 50)).collect();
    let mut in_vain = Vec::new();
    let mut plans: Vec<Vec<Arrival>> = Vec::new();
    for nth in 0..loans.len() {
        let plan = payments.iter().map(|(counts, amount)| {
            let delay = if nth == 0 { 0 } else { i64::try_from(dice.roll(*counts as u64 + 1)).unwrap() };
            Arrival { counts: *counts, comes: counts - delay, amount: *amount }
        });
        plans.push(plan.collect());
    }
    for days in (0..=9).rev() {
        office.serve_day("acme", days_ago(days)).await;
        for (nth, (loan_id, plan)) in loans.iter().zip(&plans).enumerate() {
            pay(&desk, *loan_id, plan, &mut dice, days).await;
            if nth > 1 && days == 5 {
                in_vain.push(pay_in_vain(&desk, *loan_id, &mut dice, days).await);
            }
        }
    }
    for payment_id in in_vain {
        bounce(&desk, payment_id).await;
    }
    quiet(&office).await;
    for (nth, loan_id) in loans.iter().enumerate().skip(1) {
        for days in 0..=10 {
            let day = days_ago(days);
            let (found, expected) = (as_of(&desk, *loan_id, day).await, as_of(&desk, loans[0], day).await);
            assert_eq!(found, expected, "seed {seed}, as of {day}, in the order of {:?}", plans[nth]);
        }
        assert_eq!(desk.balances(*loan_id).await, desk.balances(loans[0]).await, "seed {seed}");
    }
    books_are_right(&office).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_in_any_order_leave_the_same_books_as_in_order() {
    for seed in [1, 7] {
        any_order_gives_the_same(seed, json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_they_do_with_late_fees_escrow_and_prepayments_that_are_held() {
    let mut terms = with_late_fee();
    terms["escrow"] = json!({"monthly_minor": "1500"});
    terms["prepayment"] = json!("hold");
    for seed in [3, 11] {
        any_order_gives_the_same(seed, terms.clone()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_may_ask_for_a_payment_to_be_posted_again() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    let payment_id = id(&posted(&desk, &mock_on(loan_id, "t1", 4_000, days_ago(3))).await["payment_id"]);
    posted(&desk, &mock_on(loan_id, "t2", 100, today())).await;
    let before = desk.balances(loan_id).await;
    desk.post(&format!("/api/payments/{payment_id}/post"), &Value::Null).await.with_status(202);
    quiet(&office).await;
    let payment = self::payment(&desk, payment_id).await;
    assert_eq!(payment["reposts"][0]["because"], "asked_for", "{payment}");
    assert_eq!(payment["command"]["state"], "done");
    assert_eq!(desk.balances(loan_id).await, before, "the same rules, the same books");
    assert_eq!(published(&office, "payment.posted.v1").await, 2);
    assert_eq!(published(&office, "payment.reposted.v1").await, 2);
    books_are_right(&office).await;
}
