//! Callers who do not give up before they have a definite answer.

use crate::support::http;
use onceward_testkit::token;
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
const ROLES: [&str; 6] =
    ["loans:read", "loans:write", "products:write", "payments:read", "payments:write", "webhooks:write"];
const RETRY_EVERY: Duration = Duration::from_millis(50);
const MOST_ATTEMPTS: usize = 1_200;

/// A whole answer. `body` is `null` where there was no JSON.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

/// The API, for both tenants.
#[derive(Clone)]
pub struct Till {
    http: Client,
    url: String,
    tokens: [String; 2],
    without_answer: Arc<AtomicU64>,
}

impl Till {
    pub fn at(url: String) -> Self {
        Self { http: http(), url, tokens: TENANTS.map(|tenant| token(tenant, &ROLES)), without_answer: Arc::default() }
    }

    /// How often the connection broke, or the server could not help, so far.
    pub fn without_answer(&self) -> u64 {
        self.without_answer.load(Ordering::SeqCst)
    }

    pub async fn get(&self, tenant: usize, path: &str) -> Answer {
        self.until_definite(|| self.request(Method::GET, tenant, path)).await
    }

    /// A command with an idempotency key, which some routes do not look at.
    pub async fn send(&self, method: Method, tenant: usize, path: &str, key: &str, body: &Value) -> Answer {
        let request = || self.request(method.clone(), tenant, path).header("idempotency-key", key).json(body);
        self.until_definite(request).await
    }

    fn request(&self, method: Method, tenant: usize, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.tokens[tenant])
    }

    async fn until_definite(&self, request: impl Fn() -> RequestBuilder) -> Answer {
        let mut pace = interval(RETRY_EVERY);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..MOST_ATTEMPTS {
            pace.tick().await;
            match answer(request()).await {
                Some(answer) if answer.body["code"] == "idempotency-key-in-progress" => {}
                Some(answer) if answer.status < 500 => return answer,
                _ => drop(self.without_answer.fetch_add(1, Ordering::SeqCst)),
            }
        }
        panic!("no definite answer after {MOST_ATTEMPTS} attempts");
    }
}

/// `None`: the connection broke.
async fn answer(request: RequestBuilder) -> Option<Answer> {
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    let body = serde_json::from_slice(&response.bytes().await.ok()?).unwrap_or(Value::Null);
    Some(Answer { status, body })
}
