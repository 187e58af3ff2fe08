//! A loan's position: its ledger, its balances on a day, and its payoff.

use crate::support::LendingFixture;
use jiff::civil::date;
use onceward_lending::loans;
use onceward_money::Minor;
use serde_json::{Value, json};

fn minor(value: &Value) -> i64 {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paying_the_quote_on_its_day_ends_the_loan() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({"escrow": {"monthly_minor": "300"}})).await;
    let loan_id = client.loan("home", json!({})).await;
    let path = format!("/api/loans/{loan_id}/payoff?goodThrough=2024-03-16");
    let refused = client.get(&path).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("loan-not-funded")));

    client.change(loan_id, json!({"action": "activate", "funded_on": "2024-01-01"})).await;
    client.pay(loan_id, date(2024, 2, 1), 2001).await;
    fixture.run_daily_work("acme", date(2024, 3, 1)).await;
    let quote = client.get(&path).await.with_status(200);
    assert_eq!((&quote["good_through"], &quote["principal_minor"]), (&json!("2024-03-16"), &json!("8357")));
    // 49 for February, and half of March.
    assert_eq!((minor(&quote["interest_minor"]), minor(&quote["total_minor"])), (73, 8430));
    assert_eq!((&quote["per_diem_minor"], &quote["refund_minor"]), (&json!("2"), &json!("300")));
    let early = client.get(&format!("/api/loans/{loan_id}/payoff?goodThrough=2024-02-01")).await;
    assert_eq!(early.status, 422, "{}", early.body);

    client.pay(loan_id, date(2024, 3, 16), minor(&quote["total_minor"])).await;
    let status = client.get(&format!("/api/loans/{loan_id}/status")).await.with_status(200);
    assert_eq!(status["status"], "paid_off");
    let balances = client.balances(loan_id).await;
    for account in ["loan_principal_minor", "interest_receivable_minor", "fees_receivable_minor", "suspense_minor"] {
        assert_eq!(balances[account], "0", "{account}: {balances}");
    }
    assert_eq!(fixture.count_audit_entries("acme", "loan_status_changed").await, 1);
    fixture.run_daily_work("acme", date(2024, 6, 1)).await;
    assert_eq!(client.balances(loan_id).await, balances, "no interest accrues any more");

    // The borrower's escrow must be refunded first.
    let closing = client.change(loan_id, json!({"action": "close"})).await;
    assert_eq!(closing["state"], "refused");
    assert!(closing["reason"].as_str().unwrap().contains("escrow_liability holds 300"), "{closing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_off_loan_is_reopened_when_its_payment_is_reversed() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.active_loan("home", json!({})).await;
    client.pay(loan_id, date(2024, 2, 1), 10_058).await;
    let path = format!("/api/loans/{loan_id}");
    assert_eq!(client.get(&path).await.with_status(200)["status"], "paid_off");

    let payment = client.postings(loan_id, loans::postings::PAYMENT).await.remove(0);
    let event_id = payment["event_id"].as_str().unwrap().parse().unwrap();
    let mut tx = client.begin().await;
    let scope = tx.scope().clone();
    let mut loan = client.lock(&tx, loan_id).await;
    assert!(!loans::reopen_if_owed(&mut tx, &scope, &mut loan).await.unwrap());
    let reversal = uuid::Uuid::now_v7();
    onceward_ledger::reverse(&tx, event_id, reversal, date(2024, 2, 1), "returned:test", None).await.unwrap();
    assert!(loans::reopen_if_owed(&mut tx, &scope, &mut loan).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(client.get(&path).await.with_status(200)["status"], "active");

    let tx = client.begin().await;
    let loan = client.lock(&tx, loan_id).await;
    let dues = loans::dues(&tx, &loan, date(2024, 2, 1)).await.unwrap();
    assert_eq!(dues.oldest_unpaid.unwrap().missing, Minor::new(1701), "what the payment had paid is due again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_shows_the_balances_of_any_day_by_page() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.active_loan("home", json!({})).await;
    client.pay(loan_id, date(2024, 2, 1), 1701).await;
    client.pay(loan_id, date(2024, 3, 1), 1701).await;
    let path = format!("/api/loans/{loan_id}/ledger");
    let cases = [
        ("2023-12-31", "0", "0", 0),
        ("2024-01-01", "10000", "0", 1),
        ("2024-01-31", "10000", "0", 1),
        ("2024-02-01", "8357", "1701", 3),
        ("2024-02-29", "8357", "1701", 3),
        ("2024-03-01", "6705", "3402", 5),
    ];
    for (day, principal, cash, events) in cases {
        let ledger = client.get(&format!("{path}?asOf={day}")).await.with_status(200);
        assert_eq!(ledger["balances"]["loan_principal_minor"], principal, "{day}");
        assert_eq!(ledger["balances"]["cash_minor"], cash, "{day}");
        assert_eq!(ledger["events"].as_array().unwrap().len(), events, "{day}");
    }

    let whole = client.get(&path).await.with_status(200);
    let (mut paged, mut next) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{path}?limit=2{next}")).await.with_status(200);
        paged.extend(page["events"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(cursor) => next = format!("&after={cursor}"),
            None => break,
        }
    }
    assert_eq!(json!(paged), whole["events"]);
    for event in &paged {
        let side = |side: &str| -> i64 {
            let lines = event["lines"].as_array().unwrap().iter();
            lines.filter(|line| line["side"] == side).map(|line| minor(&line["amount_minor"])).sum()
        };
        assert_eq!(side("debit"), side("credit"));
    }
}
