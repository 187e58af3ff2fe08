//! A client of the API that retries until it has a definite response.

use crate::support::http;
use onceward_testkit::{HttpResponse, token};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};

pub const TENANTS: [&str; 2] = ["acme", "globex"];
const ROLES: [&str; 7] = [
    "loans:read",
    "loans:write",
    "products:write",
    "payments:read",
    "payments:intake",
    "payments:make",
    "webhooks:write",
];
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
const MAX_ATTEMPTS: usize = 1_200;

/// The API, for both tenants.
#[derive(Clone)]
pub struct LendingClient {
    http: Client,
    url: String,
    tokens: [String; 2],
    failed_requests: Arc<AtomicU64>,
}

impl LendingClient {
    pub fn new(url: String) -> Self {
        Self { http: http(), url, tokens: TENANTS.map(|tenant| token(tenant, &ROLES)), failed_requests: Arc::default() }
    }

    /// Returns how many requests got no response or a server error so far.
    pub fn failed_requests(&self) -> u64 {
        self.failed_requests.load(Ordering::SeqCst)
    }

    pub async fn get(&self, tenant: usize, path: &str) -> HttpResponse {
        self.until_definite(|| self.request(Method::GET, tenant, path)).await
    }

    /// Sends a command with an idempotency key, which some routes ignore.
    pub async fn send(&self, method: Method, tenant: usize, path: &str, key: &str, body: &Value) -> HttpResponse {
        let request = || self.request(method.clone(), tenant, path).header("idempotency-key", key).json(body);
        self.until_definite(request).await
    }

    fn request(&self, method: Method, tenant: usize, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.tokens[tenant])
    }

    async fn until_definite(&self, request: impl Fn() -> RequestBuilder) -> HttpResponse {
        let mut pace = interval(RETRY_INTERVAL);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..MAX_ATTEMPTS {
            pace.tick().await;
            match HttpResponse::try_to(request()).await {
                Ok(response) if response.body["code"] == "idempotency-key-in-progress" => {}
                Ok(response) if response.status < 500 => return response,
                _ => drop(self.failed_requests.fetch_add(1, Ordering::SeqCst)),
            }
        }
        panic!("no definite response after {MAX_ATTEMPTS} attempts");
    }
}
