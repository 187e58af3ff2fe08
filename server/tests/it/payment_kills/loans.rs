//! Two tenants whose loans have the same ids.

use super::lending_client::{LendingClient, TENANTS};
use jiff::{ToSpan, civil::Date};
use onceward_testkit::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// More than all payments of a long run together, so that no loan is paid off.
const PRINCIPAL_MINOR: &str = "10000000000";
/// Long enough ago for an instalment to be due.
const DAYS_BEFORE: i64 = 40;

/// Creates and funds `loans` loans for each tenant; returns their ids.
pub async fn create_loans(lending: &LendingClient, today: Date, loans: usize) -> Vec<Uuid> {
    let ids: Vec<Uuid> = (0..loans).map(|_| Uuid::now_v7()).collect();
    for (tenant, name) in TENANTS.iter().enumerate() {
        let product = json!({
            "code": "home", "currency": "USD", "annual_rate": "0.06", "day_count": "ACT/365", "term_months": 360,
        });
        post(lending, tenant, "/api/products", "product", &product, 201).await;
        let borrower = json!({"kind": "person", "display_name": format!("Ada of {name}")});
        let borrower = post(lending, tenant, "/api/borrowers", "borrower", &borrower, 201).await;
        for id in &ids {
            create_loan(
                lending,
                tenant,
                *id,
                &borrower["borrower_entity_id"],
                today.saturating_sub(DAYS_BEFORE.days()),
            )
            .await;
        }
    }
    ids
}

async fn create_loan(lending: &LendingClient, tenant: usize, id: Uuid, borrower: &Value, start: Date) {
    let loan = json!({
        "loan_id": id, "borrower_entity_id": borrower, "product_code": "home", "principal_minor": PRINCIPAL_MINOR,
        "currency": "USD", "start_date": start,
    });
    post(lending, tenant, "/api/loans", &format!("make-{id}"), &loan, 202).await;
    wait_for_status(lending, tenant, id, "created").await;
    let fund = json!({"action": "activate", "funded_on": start});
    let path = format!("/api/loans/{id}");
    let response = lending.send(Method::PATCH, tenant, &path, &format!("fund-{id}"), &fund).await;
    response.with_status(202);
    wait_for_status(lending, tenant, id, "active").await;
}

async fn post(lending: &LendingClient, tenant: usize, path: &str, key: &str, body: &Value, status: u16) -> Value {
    let response = lending.send(Method::POST, tenant, path, key, body).await;
    assert_eq!(response.status, status, "{path}: {}", response.body);
    response.body
}

async fn wait_for_status(lending: &LendingClient, tenant: usize, loan_id: Uuid, status: &str) {
    eventually(&format!("the loan is {status}"), || async {
        let loan = lending.get(tenant, &format!("/api/loans/{loan_id}/status")).await;
        (loan.body["status"] == status).then_some(())
    })
    .await;
}
