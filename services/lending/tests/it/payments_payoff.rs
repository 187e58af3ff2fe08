//! Paying a quote ends the loan, whatever the days until then bring.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use jiff::civil::Date;
use serde_json::{Value, json};
use uuid::Uuid;

const BUCKETS: [&str; 5] = ["fees_due", "interest_past_due", "interest_current", "principal", "escrow"];

fn minor(value: &Value) -> i64 {
    value.as_str().expect("digits").parse().expect("digits")
}

async fn quote(client: &ApiClient<'_>, loan_id: Uuid, day: Date) -> Value {
    client.get(&format!("/api/loans/{loan_id}/payoff?goodThrough={day}")).await.with_status(200)
}

async fn assert_quote_ends_loan(client: &ApiClient<'_>, loan_id: Uuid, hint: Option<&str>, what: &str) {
    let quote = quote(client, loan_id, today()).await;
    let mut body = mock_payment(loan_id, &format!("{loan_id}-payoff"), minor(&quote["total_minor"]));
    if let Some(bucket) = hint {
        body["allocation_hints"] = json!({ "bucket": bucket });
    }
    let paid = submit_and_post(client, &body).await;
    let loan = client.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
    assert_eq!(loan["status"], "paid_off", "{what}: {quote} left {} by {paid}", loan["balances"]);
    let left = ["suspense", "escrow_liability"].map(|held| minor(&loan["balances"][format!("{held}_minor")]));
    assert_eq!(left.iter().sum::<i64>(), minor(&quote["refund_minor"]), "{what}: {quote} left {}", loan["balances"]);
}

/// Terms with late fees and escrow, and the buckets in this order.
fn terms(prepayment: &str, order: &[&str]) -> Value {
    json!({
        "late_fee": {"grace_days": 2, "charge": {"kind": "flat", "amount_minor": "700"}},
        "escrow": {"monthly_minor": "1500"}, "prepayment": prepayment, "waterfall": order,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quote_includes_the_late_fees_charged_until_its_day() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    for (served_to, what) in [(None, "never served"), (Some(days_ago(10)), "served before anything was due")] {
        let loan_id = funded_loan(&client, 38, terms("reduce_principal", &BUCKETS)).await;
        if let Some(day) = served_to {
            fixture.run_daily_work("acme", day).await;
        }
        assert_eq!(balance(&client, loan_id, "fees_receivable").await, 0, "{what}");
        assert_eq!(quote(&client, loan_id, today()).await["fees_minor"], "700", "{what}");
        let ahead = today().saturating_add(jiff::Span::new().days(40));
        assert_eq!(quote(&client, loan_id, ahead).await["fees_minor"], "1400", "{what}: another one is late by then");
        assert_eq!(balance(&client, loan_id, "fees_receivable").await, 0, "{what}: a quote posts nothing");
        assert_quote_ends_loan(&client, loan_id, None, what).await;
    }
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paying_the_quote_with_any_hint_ends_a_loan_whose_escrow_deposits_are_due() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    for prepayment in ["hold", "reduce_principal"] {
        for hint in [None, Some("escrow"), Some("principal")] {
            let loan_id = funded_loan(&client, 38, terms(prepayment, &BUCKETS)).await;
            assert_quote_ends_loan(&client, loan_id, hint, &format!("{prepayment} {hint:?}")).await;
        }
    }
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quote_accounts_for_suspense_that_pays_escrow_deposits_first() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let order = ["escrow", "fees_due", "interest_past_due", "interest_current", "principal"];
    for (prepayment, held) in [("hold", 5_000), ("reduce_principal", 5_000), ("hold", 900), ("hold", 20_000)] {
        let loan_id = funded_loan(&client, 35, terms(prepayment, &order)).await;
        let mut early = mock_payment_on(loan_id, &format!("{loan_id}-early"), held, days_ago(9));
        early["allocation_hints"] = json!({"bucket": "future"});
        submit_and_post(&client, &early).await;
        assert_quote_ends_loan(&client, loan_id, None, &format!("{prepayment} {held}")).await;
        assert_eq!(minor(&client.balances(loan_id).await["escrow_liability_minor"]), held.min(1_500));
    }
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_escrow_deposit_paid_from_suspense_is_not_due_again() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 35, terms("hold", &BUCKETS)).await;
    submit_and_post(&client, &mock_payment_on(loan_id, "early", 14_000, days_ago(9))).await;
    for days in (0..9).rev() {
        fixture.run_daily_work("acme", days_ago(days)).await;
    }
    assert_eq!(balance(&client, loan_id, "escrow_liability").await, 1_500, "suspense paid it on the due date");
    let next = submit_and_post(&client, &mock_payment(loan_id, "next", 1_000)).await;
    let escrow = applied(&next["posting"]).into_iter().find(|(bucket, _)| bucket == "escrow");
    assert_eq!(escrow, None, "{next}");
    assert_eq!(balance(&client, loan_id, "escrow_liability").await, 1_500);
    assert_eq!(balance(&client, loan_id, "fees_receivable").await, 0, "nothing was late");
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspense_held_at_a_modification_pays_the_new_instalments_in_time() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 20, terms("hold", &BUCKETS)).await;
    let mut early = mock_payment_on(loan_id, "early", 40_000, days_ago(9));
    early["allocation_hints"] = json!({"bucket": "future"});
    submit_and_post(&client, &early).await;
    let day = days_ago(8);
    let asked = json!({"action": "change_status", "status": "in_modification", "effective_date": day});
    assert_eq!(client.change(loan_id, asked).await["status"], "in_modification");
    let terms = json!({
        "action": "modify", "effective_date": day, "term_months": 12, "first_due_date": days_ago(5),
    });
    let modified = client.change(loan_id, terms).await;
    assert_eq!(modified["status"], "active", "{modified}");
    for days in (0..8).rev() {
        fixture.run_daily_work("acme", days_ago(days)).await;
    }
    let paid = client.postings(loan_id, "posting.allocation.v1").await;
    assert_eq!(paid.len(), 1, "{paid:?}");
    assert_eq!(client.postings(loan_id, "posting.late_fee.v1").await, [] as [Value; 0], "suspense paid in time");
    assert_quote_ends_loan(&client, loan_id, None, "modified").await;
    assert_books_balance(&fixture).await;
}
