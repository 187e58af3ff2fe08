//! API calls of a tenant's user.

use super::LendingFixture;
use onceward_testkit::{HttpResponse, eventually};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// Calls the API as a user of one tenant, with every role.
pub struct ApiClient<'f> {
    pub fixture: &'f LendingFixture,
    pub tenant: String,
    token: String,
}

impl<'f> ApiClient<'f> {
    pub fn new(fixture: &'f LendingFixture, tenant: &str, user: &str) -> Self {
        let token = fixture.platform.token_for(tenant, user, &fixture.platform.platform().roles(), 3600);
        Self { fixture, tenant: tenant.to_owned(), token }
    }

    /// Creates a request that the caller completes.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.fixture.http.request(method, format!("{}{path}", self.fixture.url)).bearer_auth(&self.token)
    }

    pub async fn get(&self, path: &str) -> HttpResponse {
        HttpResponse::to(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.post_as(&Uuid::now_v7().to_string(), path, body).await
    }

    /// Sends a command with this idempotency key.
    pub async fn post_as(&self, key: &str, path: &str, body: &Value) -> HttpResponse {
        HttpResponse::to(self.request(Method::POST, path).header("idempotency-key", key).json(body)).await
    }

    pub async fn post_without_key(&self, path: &str, body: &Value) -> HttpResponse {
        HttpResponse::to(self.request(Method::POST, path).json(body)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> HttpResponse {
        let key = Uuid::now_v7().to_string();
        HttpResponse::to(self.request(Method::PATCH, path).header("idempotency-key", key).json(body)).await
    }

    /// Creates a borrower.
    pub async fn borrower(&self) -> Uuid {
        let body = json!({"kind": "person", "display_name": "Ada Example"});
        id(&self.post("/api/borrowers", &body).await.with_status(201)["borrower_entity_id"])
    }

    /// Creates a product with 7 % by 30/360 over six months; its request also contains the members of `differs`.
    pub async fn product(&self, code: &str, differs: Value) {
        let mut body = json!({
            "code": code, "currency": "USD", "annual_rate": "0.07", "day_count": "30/360", "term_months": 6,
        });
        merge(&mut body, differs);
        self.post("/api/products", &body).await.with_status(201);
    }

    /// Returns a complete body for `POST /api/loans`: 100.00 from 1 January 2024.
    pub async fn application(&self, product: &str, differs: Value) -> Value {
        let mut body = json!({
            "borrower_entity_id": self.borrower().await, "product_code": product, "principal_minor": "10000",
            "currency": "USD", "start_date": "2024-01-01",
        });
        merge(&mut body, differs);
        body
    }

    /// Creates a loan that is not funded.
    pub async fn loan(&self, product: &str, differs: Value) -> Uuid {
        let body = self.application(product, differs).await;
        let loan_id = self.post("/api/loans", &body).await.loan_id();
        assert_eq!(self.wait_until_settled(loan_id).await["status"], "created");
        loan_id
    }

    /// Creates a loan that was funded on its start date.
    pub async fn active_loan(&self, product: &str, differs: Value) -> Uuid {
        let loan_id = self.loan(product, differs).await;
        let start_date = self.get(&format!("/api/loans/{loan_id}")).await.with_status(200)["start_date"].clone();
        let status = self.change(loan_id, json!({"action": "activate", "funded_on": start_date})).await;
        assert_eq!(status["status"], "active", "{status}");
        loan_id
    }

    /// Requests a change and returns the status once it is done or refused.
    pub async fn change(&self, loan_id: Uuid, change: Value) -> Value {
        self.patch(&format!("/api/loans/{loan_id}"), &change).await.with_status(202);
        self.wait_until_settled(loan_id).await
    }

    /// Waits until the last command about a loan is no longer in progress, and returns its status.
    pub async fn wait_until_settled(&self, loan_id: Uuid) -> Value {
        eventually("the command is settled", || async {
            let status = self.get(&format!("/api/loans/{loan_id}/status")).await.with_status(200);
            (status["state"] != "processing").then_some(status)
        })
        .await
    }

    /// Returns the balances of a loan, each on its usual side.
    pub async fn balances(&self, loan_id: Uuid) -> Value {
        self.get(&format!("/api/loans/{loan_id}/ledger")).await.with_status(200)["balances"].clone()
    }

    /// Returns the events of a loan whose kind is `schema`.
    pub async fn postings(&self, loan_id: Uuid, schema: &str) -> Vec<Value> {
        let ledger = self.get(&format!("/api/loans/{loan_id}/ledger?limit=500")).await.with_status(200);
        let events = ledger["events"].as_array().cloned().unwrap_or_default();
        events.into_iter().filter(|event| event["schema"] == schema).collect()
    }
}

/// The response to an accepted command about a loan.
pub trait AcceptedLoan {
    /// Returns the loan's id, and asserts that the command was accepted.
    fn loan_id(&self) -> Uuid;
}

impl AcceptedLoan for HttpResponse {
    #[track_caller]
    fn loan_id(&self) -> Uuid {
        assert_eq!(self.status, 202, "{}", self.body);
        id(&self.body["loanId"])
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
