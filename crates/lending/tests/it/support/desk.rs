//! A tenant's user at work.

use super::{Answer, Office};
use onceward_testkit::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// A tenant's user, with every role.
pub struct Desk<'o> {
    pub office: &'o Office,
    pub tenant: String,
    token: String,
}

impl<'o> Desk<'o> {
    pub fn new(office: &'o Office, tenant: &str, user: &str) -> Self {
        let token = office.platform.token_for(tenant, user, &office.platform.platform().roles(), 3600);
        Self { office, tenant: tenant.to_owned(), token }
    }

    /// A request that the caller completes.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.office.http.request(method, format!("{}{path}", self.office.url)).bearer_auth(&self.token)
    }

    pub async fn get(&self, path: &str) -> Answer {
        Answer::to(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_as(&Uuid::now_v7().to_string(), path, body).await
    }

    /// A command with this idempotency key.
    pub async fn post_as(&self, key: &str, path: &str, body: &Value) -> Answer {
        Answer::to(self.request(Method::POST, path).header("idempotency-key", key).json(body)).await
    }

    pub async fn post_without_key(&self, path: &str, body: &Value) -> Answer {
        Answer::to(self.request(Method::POST, path).json(body)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Answer {
        let key = Uuid::now_v7().to_string();
        Answer::to(self.request(Method::PATCH, path).header("idempotency-key", key).json(body)).await
    }

    pub async fn borrower(&self) -> Uuid {
        let body = json!({"kind": "person", "display_name": "Ada Example"});
        id(&self.post("/api/borrowers", &body).await.with_status(201)["borrower_entity_id"])
    }

    /// A product of 7 % by 30/360 over six months, with what `differs`.
    pub async fn product(&self, code: &str, differs: Value) {
        let mut body = json!({
            "code": code, "currency": "USD", "annual_rate": "0.07", "day_count": "30/360", "term_months": 6,
        });
        merge(&mut body, differs);
        self.post("/api/products", &body).await.with_status(201);
    }

    /// A body for `POST /api/loans` that lacks nothing: 100.00 from 1 January 2024.
    pub async fn application(&self, product: &str, differs: Value) -> Value {
        let mut body = json!({
            "borrower_entity_id": self.borrower().await, "product_code": product, "principal_minor": "10000",
            "currency": "USD", "start_date": "2024-01-01",
        });
        merge(&mut body, differs);
        body
    }

    /// A loan that is made and not funded.
    pub async fn loan(&self, product: &str, differs: Value) -> Uuid {
        let body = self.application(product, differs).await;
        let loan_id = self.post("/api/loans", &body).await.loan_id();
        assert_eq!(self.settled(loan_id).await["status"], "created");
        loan_id
    }

    /// A loan that was funded on its start date.
    pub async fn active_loan(&self, product: &str, differs: Value) -> Uuid {
        let loan_id = self.loan(product, differs).await;
        let start_date = self.get(&format!("/api/loans/{loan_id}")).await.with_status(200)["start_date"].clone();
        let status = self.change(loan_id, json!({"action": "activate", "funded_on": start_date})).await;
        assert_eq!(status["status"], "active", "{status}");
        loan_id
    }

    /// Asks for a change and gives the status once it is done or refused.
    pub async fn change(&self, loan_id: Uuid, change: Value) -> Value {
        self.patch(&format!("/api/loans/{loan_id}"), &change).await.with_status(202);
        self.settled(loan_id).await
    }

    /// The status of the last command about a loan, once it is no longer under way.
    pub async fn settled(&self, loan_id: Uuid) -> Value {
        eventually("the command is settled", || async {
            let status = self.get(&format!("/api/loans/{loan_id}/status")).await.with_status(200);
            (status["state"] != "processing").then_some(status)
        })
        .await
    }

    /// What the accounts of a loan hold, each on its usual side.
    pub async fn balances(&self, loan_id: Uuid) -> Value {
        self.get(&format!("/api/loans/{loan_id}/ledger")).await.with_status(200)["balances"].clone()
    }

    /// The events of a loan whose kind is `schema`.
    pub async fn postings(&self, loan_id: Uuid, schema: &str) -> Vec<Value> {
        let ledger = self.get(&format!("/api/loans/{loan_id}/ledger?limit=500")).await.with_status(200);
        let events = ledger["events"].as_array().cloned().unwrap_or_default();
        events.into_iter().filter(|event| event["schema"] == schema).collect()
    }
}

fn id(value: &Value) -> Uuid {
    value.as_str().and_then(|id| id.parse().ok()).expect("an id")
}

fn merge(body: &mut Value, differs: Value) {
    for (name, value) in differs.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
}
