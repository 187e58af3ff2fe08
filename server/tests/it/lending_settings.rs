//! Lending configured by environment variables whose names are fixed for compatibility, as a process reads them.

use crate::{
    lending_process::{ACME, LendingProcesses, create_loan, pay, today},
    payment_kills::lending_client::LendingClient,
};
use jiff::ToSpan;
use onceward_testkit::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// Waits until the payment is posted or has failed; returns its status and the reason.
async fn outcome_of(lending: &LendingClient, body: &Value) -> (String, Option<String>) {
    let path = format!("/api/payments/{}", body["payment_id"].as_str().expect("a payment"));
    eventually("the payment is posted or has failed", || async {
        let payment = lending.get(ACME, &path).await.body;
        let status = payment["status"].as_str().unwrap_or_default().to_owned();
        let reason = payment["validation"]["reason"].as_str().map(str::to_owned);
        ["posted", "failed"].contains(&status.as_str()).then_some((status, reason))
    })
    .await
}

/// Sends a payment that is effective `days` days before the day on which it is received. If midnight passed meanwhile,
/// the day was wrong, and another payment is sent.
async fn pay_effective_days_ago(lending: &LendingClient, loan_id: Uuid, txn: &str, amount: &str, days: i64) -> Value {
    loop {
        let day = today();
        let overrides = json!({"effective_date": day.saturating_sub(days.days())});
        let body = pay(lending, loan_id, &format!("{txn} of {day}"), amount, overrides).await.with_status(201);
        if today() == day {
            return body;
        }
    }
}

#[tokio::test]
async fn payments_are_limited_by_the_compatibility_variables() {
    let variables = [("PAYMENT_MAX_MINOR", "100"), ("PAYMENT_MAX_STALENESS_DAYS", "2")];
    let mut processes = LendingProcesses::new(&variables).await;
    let lending = LendingClient::new(processes.start(&["all"]).await);
    let loan_id = create_loan(&lending).await;
    for (txn, amount, days, status, reason) in [
        ("most", "100", 0, "posted", None),
        ("more", "101", 0, "failed", Some("amount_too_large")),
        ("oldest", "1", 2, "posted", None),
        ("older", "1", 3, "failed", Some("stale_effective_date")),
    ] {
        let body = pay_effective_days_ago(&lending, loan_id, txn, amount, days).await;
        let expected = (status.to_owned(), reason.map(str::to_owned));
        assert_eq!(outcome_of(&lending, &body).await, expected, "{txn}");
    }
    processes.stop().await;
}

#[tokio::test]
async fn a_loan_is_created_within_its_request_if_the_variable_says_so() {
    for (value, status) in [("0", 201), ("1", 202)] {
        let mut processes = LendingProcesses::new(&[("FEATURE_ASYNC_LOAN_CREATE", value)]).await;
        let lending = LendingClient::new(processes.start(&["api"]).await);
        let product = json!({
            "code": "home", "currency": "USD", "annual_rate": "0.06", "day_count": "ACT/365", "term_months": 360,
        });
        assert_eq!(lending.send(Method::POST, ACME, "/api/products", "product", &product).await.status, 201);
        let borrower = json!({"kind": "person", "display_name": "Ada"});
        let borrower = lending.send(Method::POST, ACME, "/api/borrowers", "borrower", &borrower).await.body;
        let loan = json!({
            "borrower_entity_id": borrower["borrower_entity_id"], "product_code": "home", "principal_minor": "120000",
            "currency": "USD", "start_date": today(),
        });
        let response = lending.send(Method::POST, ACME, "/api/loans", "loan", &loan).await;
        assert_eq!(response.status, status, "FEATURE_ASYNC_LOAN_CREATE={value}: {}", response.body);
        let loans = processes.count("SELECT count(*) FROM lending.loan").await;
        assert_eq!(loans, i64::from(status == 201), "no worker runs, so only the request itself can create it");
        processes.stop().await;
    }
}
