//! Two tenants whose loans have the same ids.

use super::till::{TENANTS, Till};
use jiff::{ToSpan, civil::Date};
use onceward_testkit::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// More than all payments of a long run together, so that no loan is paid off.
const PRINCIPAL_MINOR: &str = "10000000000";
/// Long enough for an instalment to be due.
const DAYS_BEFORE: i64 = 40;

/// Makes and funds so many for each; gives their ids.
pub async fn open_loans(till: &Till, today: Date, loans: usize) -> Vec<Uuid> {
    let ids: Vec<Uuid> = (0..loans).map(|_| Uuid::now_v7()).collect();
    for (tenant, name) in TENANTS.iter().enumerate() {
        let product = json!({
            "code": "home", "currency": "USD", "annual_rate": "0.06", "day_count": "ACT/365", "term_months": 360,
        });
        post(till, tenant, "/api/products", "product", &product, 201).await;
        let borrower = json!({"kind": "person", "display_name": format!("Ada of {name}")});
        let borrower = post(till, tenant, "/api/borrowers", "borrower", &borrower, 201).await;
        for id in &ids {
            open_loan(till, tenant, *id, &borrower["borrower_entity_id"], today.saturating_sub(DAYS_BEFORE.days()))
                .await;
        }
    }
    ids
}

async fn open_loan(till: &Till, tenant: usize, id: Uuid, borrower: &Value, start: Date) {
    let loan = json!({
        "loan_id": id, "borrower_entity_id": borrower, "product_code": "home", "principal_minor": PRINCIPAL_MINOR,
        "currency": "USD", "start_date": start,
    });
    post(till, tenant, "/api/loans", &format!("make-{id}"), &loan, 202).await;
    becomes(till, tenant, id, "created").await;
    let fund = json!({"action": "activate", "funded_on": start});
    let path = format!("/api/loans/{id}");
    let funded = till.send(Method::PATCH, tenant, &path, &format!("fund-{id}"), &fund).await;
    assert_eq!(funded.status, 202, "{}", funded.body);
    becomes(till, tenant, id, "active").await;
}

async fn post(till: &Till, tenant: usize, path: &str, key: &str, body: &Value, status: u16) -> Value {
    let answer = till.send(Method::POST, tenant, path, key, body).await;
    assert_eq!(answer.status, status, "{path}: {}", answer.body);
    answer.body
}

async fn becomes(till: &Till, tenant: usize, loan_id: Uuid, status: &str) {
    eventually(&format!("the loan is {status}"), || async {
        let answer = till.get(tenant, &format!("/api/loans/{loan_id}/status")).await;
        (answer.body["status"] == status).then_some(())
    })
    .await;
}
