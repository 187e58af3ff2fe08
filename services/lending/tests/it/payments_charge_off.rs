//! Payments that take effect before a charge-off that was reversed.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use serde_json::{Value, json};
use uuid::Uuid;

const PAID: i64 = 8;
const CHARGED_OFF: i64 = 6;
const REINSTATED: i64 = 3;

async fn change(client: &ApiClient<'_>, loan_id: Uuid, action: &str, days: i64, status: &str) {
    let done = client.change(loan_id, json!({"action": action, "effective_date": days_ago(days)})).await;
    assert_eq!((&done["state"], &done["status"]), (&json!("done"), &json!(status)), "{done}");
}

/// Runs the daily work for the loans. All are charged off and reinstated; those in `paid` receive a payment before
/// that.
async fn run_days(
    fixture: &LendingFixture,
    client: &ApiClient<'_>,
    loans: &[Uuid],
    paid: &[Uuid],
    amount: i64,
) -> Vec<Uuid> {
    let mut payments = Vec::new();
    for days in (0..=9).rev() {
        fixture.run_daily_work("acme", days_ago(days)).await;
        for loan_id in loans {
            match days {
                PAID if paid.contains(loan_id) => {
                    let body = mock_payment_on(*loan_id, &format!("{loan_id}-paid"), amount, days_ago(PAID));
                    payments.push(id(&submit_and_post(client, &body).await["payment_id"]));
                }
                CHARGED_OFF => change(client, *loan_id, "charge_off", CHARGED_OFF, "charged_off").await,
                REINSTATED => change(client, *loan_id, "reverse_charge_off", REINSTATED, "active").await,
                1 => drop(
                    submit_and_post(
                        client,
                        &mock_payment_on(*loan_id, &format!("{loan_id}-later"), 3_000, days_ago(1)),
                    )
                    .await,
                ),
                _ => {}
            }
        }
    }
    payments
}

async fn assert_same_books(client: &ApiClient<'_>, found: Uuid, expected: Uuid, what: &str) {
    for days in 0..=10 {
        let day = days_ago(days);
        assert_eq!(as_of(client, found, day).await, as_of(client, expected, day).await, "{what}: as of {day}");
    }
    assert_eq!(client.balances(found).await, client.balances(expected).await, "{what}");
}

fn terms() -> [Value; 2] {
    let fees = json!({"late_fee": {"grace_days": 1, "charge": {"kind": "flat", "amount_minor": "700"}},
                      "escrow": {"monthly_minor": "1500"}, "prepayment": "hold"});
    [json!({}), fees]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_payment_from_before_a_charge_off_leaves_the_same_books_as_in_order() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    for terms in terms() {
        let [late, in_order] =
            [funded_loan(&client, 41, terms.clone()).await, funded_loan(&client, 41, terms.clone()).await];
        run_days(&fixture, &client, &[late, in_order], &[in_order], 15_000).await;
        submit_and_post(&client, &mock_payment_on(late, &format!("{late}-late"), 15_000, days_ago(PAID))).await;
        assert_same_books(&client, late, in_order, &terms.to_string()).await;
        assert_eq!(balance(&client, late, "charge_off_expense").await, 0);

        // Once more: the repeated postings are reversed like the first ones.
        let again =
            submit_and_post(&client, &mock_payment_on(late, &format!("{late}-again"), 2_000, days_ago(9))).await;
        client
            .post(&format!("/api/payments/{}/return", again["payment_id"].as_str().unwrap()), &json!({"reason": "R01"}))
            .await
            .with_status(202);
        wait_for_status(&client, id(&again["payment_id"]), "returned").await;
        assert_same_books(&client, late, in_order, "returned").await;
    }
    assert_eq!(fixture.count("onceward.dead_letters").await, 0);
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_returned_payment_from_before_a_charge_off_bears_no_interest_while_the_loan_was_charged_off() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    for terms in terms() {
        let [returned, never] =
            [funded_loan(&client, 41, terms.clone()).await, funded_loan(&client, 41, terms.clone()).await];
        let payments = run_days(&fixture, &client, &[returned, never], &[returned], 15_000).await;
        client.post(&format!("/api/payments/{}/return", payments[0]), &json!({"reason": "R01"})).await.with_status(202);
        wait_for_status(&client, payments[0], "returned").await;
        assert_same_books(&client, returned, never, &terms.to_string()).await;
        let inside = as_of(&client, returned, days_ago(CHARGED_OFF - 1)).await;
        for account in ["loan_principal_minor", "interest_receivable_minor", "fees_receivable_minor"] {
            assert_eq!(inside[account], "0", "charged off: {inside}");
        }
    }
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_returned_during_a_charge_off_bears_interest_from_the_day_of_its_reversal() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    // A tenth of a per cent per day.
    let loan_id = funded_loan(&client, 20, json!({"annual_rate": "0.365"})).await;
    let mut prepaid = mock_payment_on(loan_id, "prepaid", 20_000, days_ago(PAID));
    prepaid["allocation_hints"] = json!({"bucket": "principal"});
    let payment_id = id(&submit_and_post(&client, &prepaid).await["payment_id"]);
    change(&client, loan_id, "charge_off", CHARGED_OFF, "charged_off").await;
    client.post(&format!("/api/payments/{payment_id}/return"), &json!({"reason": "R01"})).await.with_status(202);
    wait_for_status(&client, payment_id, "returned").await;
    change(&client, loan_id, "reverse_charge_off", REINSTATED, "active").await;
    fixture.run_daily_work("acme", today()).await;
    assert_eq!(balance(&client, loan_id, "loan_principal").await, 120_000);
    let interest = 12 * 120 + 2 * 100 + 3 * 120;
    assert_eq!(
        balance(&client, loan_id, "interest_receivable").await,
        interest,
        "no interest accrues while the loan is charged off"
    );
    assert_books_balance(&fixture).await;
}
