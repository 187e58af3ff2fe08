//! Where a loan stands: its ledger, its balances on a day, and what ends it.

use crate::support::Office;
use jiff::civil::date;
use onceward_lending::loans;
use onceward_money::Minor;
use serde_json::{Value, json};

fn minor(value: &Value) -> i64 {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payoff_quote_that_is_paid_on_its_day_ends_the_loan() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({"escrow": {"monthly_minor": "300"}})).await;
    let loan_id = desk.loan("home", json!({})).await;
    let path = format!("/api/loans/{loan_id}/payoff?goodThrough=2024-03-16");
    let refused = desk.get(&path).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("loan-not-funded")));

    desk.change(loan_id, json!({"action": "activate", "funded_on": "2024-01-01"})).await;
    desk.pay(loan_id, date(2024, 2, 1), 2001).await;
    office.serve_day("acme", date(2024, 3, 1)).await;
    let quote = desk.get(&path).await.with_status(200);
    assert_eq!((&quote["good_through"], &quote["principal_minor"]), (&json!("2024-03-16"), &json!("8357")));
    // 49 of February, and half of March.
    assert_eq!((minor(&quote["interest_minor"]), minor(&quote["total_minor"])), (73, 8430));
    assert_eq!((&quote["per_diem_minor"], &quote["refund_minor"]), (&json!("2"), &json!("300")));
    let early = desk.get(&format!("/api/loans/{loan_id}/payoff?goodThrough=2024-02-01")).await;
    assert_eq!(early.status, 422, "{}", early.body);

    desk.pay(loan_id, date(2024, 3, 16), minor(&quote["total_minor"])).await;
    let status = desk.get(&format!("/api/loans/{loan_id}/status")).await.with_status(200);
    assert_eq!(status["status"], "paid_off");
    let balances = desk.balances(loan_id).await;
    for account in ["loan_principal_minor", "interest_receivable_minor", "fees_receivable_minor", "suspense_minor"] {
        assert_eq!(balances[account], "0", "{account}: {balances}");
    }
    assert_eq!(office.audited("acme", "loan_status_changed").await, 1);
    office.serve_day("acme", date(2024, 6, 1)).await;
    assert_eq!(desk.balances(loan_id).await, balances, "no interest runs any more");

    // The borrower's escrow must go back first.
    let closing = desk.change(loan_id, json!({"action": "close"})).await;
    assert_eq!(closing["state"], "refused");
    assert!(closing["reason"].as_str().unwrap().contains("escrow_liability holds 300"), "{closing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_loan_is_open_again_when_its_payment_comes_back() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let loan_id = desk.active_loan("home", json!({})).await;
    desk.pay(loan_id, date(2024, 2, 1), 10_058).await;
    let path = format!("/api/loans/{loan_id}");
    assert_eq!(desk.get(&path).await.with_status(200)["status"], "paid_off");

    let payment = desk.postings(loan_id, loans::postings::PAYMENT).await.remove(0);
    let event_id = payment["event_id"].as_str().unwrap().parse().unwrap();
    let mut tx = desk.begin().await;
    let mut loan = desk.lock(&tx, loan_id).await;
    assert!(!loans::reopen_if_owed(&mut tx, &mut loan).await.unwrap());
    let reversal = uuid::Uuid::now_v7();
    onceward_ledger::reverse(&tx, event_id, reversal, date(2024, 2, 1), "returned:test", None).await.unwrap();
    assert!(loans::reopen_if_owed(&mut tx, &mut loan).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(desk.get(&path).await.with_status(200)["status"], "active");

    let tx = desk.begin().await;
    let loan = desk.lock(&tx, loan_id).await;
    let dues = loans::dues(&tx, &loan, date(2024, 2, 1)).await.unwrap();
    assert_eq!(dues.oldest_unpaid.unwrap().lacks, Minor::new(1701), "what it had paid is due again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_tells_the_balances_of_any_day_by_page() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let loan_id = desk.active_loan("home", json!({})).await;
    desk.pay(loan_id, date(2024, 2, 1), 1701).await;
    desk.pay(loan_id, date(2024, 3, 1), 1701).await;
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
        let ledger = desk.get(&format!("{path}?asOf={day}")).await.with_status(200);
        assert_eq!(ledger["balances"]["loan_principal_minor"], principal, "{day}");
        assert_eq!(ledger["balances"]["cash_minor"], cash, "{day}");
        assert_eq!(ledger["events"].as_array().unwrap().len(), events, "{day}");
    }

    let whole = desk.get(&path).await.with_status(200);
    let (mut paged, mut next) = (Vec::new(), String::new());
    loop {
        let page = desk.get(&format!("{path}?limit=2{next}")).await.with_status(200);
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
