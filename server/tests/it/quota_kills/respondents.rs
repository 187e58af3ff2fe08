//! Clients that repeat a request, with the same key and at any process, until it has a definite response.

use crate::support::http;
use onceward_testkit::{HttpResponse, token};
use rand::{RngExt, seq::IndexedRandom};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};
use uuid::Uuid;

const RETRY_INTERVAL: Duration = Duration::from_millis(20);
const MAX_ATTEMPTS: usize = 3_000;

/// The API processes, and an author's token.
pub struct SurveyApis {
    http: Client,
    urls: Vec<String>,
    author: String,
    /// Requests whose connection broke or was refused.
    pub broken: AtomicU64,
    /// Requests that got the response 503.
    pub unavailable: AtomicU64,
}

/// The outcome of one respondent.
pub enum RespondentOutcome {
    Completed,
    QuotaFull,
    Left,
    /// Stopped responding while holding a place.
    Vanished,
}

impl SurveyApis {
    pub fn new(urls: Vec<String>) -> Self {
        let author = token("acme", &["surveys:read", "surveys:write"]);
        Self { http: http(), urls, author, broken: AtomicU64::new(0), unavailable: AtomicU64::new(0) }
    }

    /// Sends a command of the author with a new key. Panics unless it succeeds.
    pub async fn author(&self, method: Method, path: &str, body: &Value) -> Value {
        let key = Uuid::now_v7().to_string();
        self.succeed(|url| {
            let request = self.http.request(method.clone(), format!("{url}{path}")).bearer_auth(&self.author);
            with_body(request.header("idempotency-key", &key), body)
        })
        .await
    }

    /// Creates a survey of one page with a bucket for women; returns the path of the bucket and the token of a link.
    pub async fn survey(&self, target: i64, max_overfill: i64) -> (String, String) {
        let sex = json!({"id": "sex", "text": "And?", "type": "single", "required": true,
            "options": [{"id": "f", "label": "Woman"}, {"id": "m", "label": "Man"}]});
        let definition = json!({"pages": [{"id": "only", "questions": [sex]}]});
        let body = json!({"title": "Drinks", "definition": definition});
        let survey = id(&self.author(Method::POST, "/api/surveys", &body).await["survey_id"]);
        self.author(Method::POST, &format!("/api/surveys/{survey}/publish"), &Value::Null).await;
        let women = json!({"equals": {"question": "sex", "value": "f"}});
        let bucket = json!({"name": "women", "condition": women, "target": target, "max_overfill": max_overfill});
        let quotas = format!("/api/surveys/{survey}/quotas");
        let created = self.author(Method::POST, &quotas, &json!({"buckets": [bucket]})).await;
        let bucket = id(&created["buckets"][0]["bucket_id"]);
        let body = json!({"name": "everywhere", "kind": "link"});
        let collector = self.author(Method::POST, &format!("/api/surveys/{survey}/collectors"), &body).await;
        let open = format!("/api/collectors/{}/open", id(&collector["collector_id"]));
        self.author(Method::POST, &open, &Value::Null).await;
        (format!("{quotas}/{bucket}"), collector["token"].as_str().expect("a token").to_owned())
    }

    /// Starts a session of a woman and answers the only page; returns the session, its token and the response.
    pub async fn start_session(&self, link: &str) -> (Uuid, String, Value) {
        let key = Uuid::new_v4().to_string();
        let start = |url: &str| {
            self.http.post(format!("{url}/runtime/start")).bearer_auth(link).header("idempotency-key", &key)
        };
        let started = self.succeed(start).await;
        if rand::rng().random_ratio(1, 4) {
            let again = self.succeed(start).await;
            assert_eq!(
                again["session_id"], started["session_id"],
                "a key starts one session, whichever process handles it"
            );
        }
        let (session, token) = (id(&started["session_id"]), started["token"].as_str().expect("a token").to_owned());
        let page = json!({"page_id": "only", "attempt": 1, "answers": {"sex": "f"}});
        let response = self.step(session, &token, "answers", &page).await;
        (session, token, response)
    }

    /// Sends a step of a session.
    pub async fn step(&self, session: Uuid, token: &str, step: &str, body: &Value) -> Value {
        self.succeed(|url| {
            let request = self.http.post(format!("{url}/runtime/{session}/{step}")).bearer_auth(token);
            with_body(request, body)
        })
        .await
    }

    /// Runs one respondent from the start to any outcome.
    pub async fn run_respondent(&self, link: &str) -> (Uuid, RespondentOutcome) {
        let (session, token, response) = self.start_session(link).await;
        if response["status"] == "terminated" {
            assert_eq!(response["reason"], "quota_full");
            return (session, RespondentOutcome::QuotaFull);
        }
        let outcome = match rand::rng().random_range(0..10) {
            0..5 => {
                let completed = self.step(session, &token, "complete", &Value::Null).await;
                if rand::rng().random_ratio(1, 4) {
                    let again = self.step(session, &token, "complete", &Value::Null).await;
                    assert_eq!(again, completed, "completing twice has the same response in every process");
                }
                match completed["status"].as_str() {
                    Some("completed") => RespondentOutcome::Completed,
                    // The place had expired, and another respondent has it.
                    _ => {
                        assert_eq!(completed["reason"], "quota_full");
                        RespondentOutcome::QuotaFull
                    }
                }
            }
            5..7 => {
                self.step(session, &token, "terminate", &json!({"reason": "by_respondent"})).await;
                RespondentOutcome::Left
            }
            _ => RespondentOutcome::Vanished,
        };
        (session, outcome)
    }

    /// Sends the request to any of the processes until one responds; it must accept the request.
    async fn succeed(&self, request: impl Fn(&str) -> RequestBuilder) -> Value {
        let mut pace = interval(RETRY_INTERVAL);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..MAX_ATTEMPTS {
            pace.tick().await;
            let url = self.urls.choose(&mut rand::rng()).expect("there are processes");
            let Ok(HttpResponse { status, body, .. }) = HttpResponse::try_to(request(url)).await else {
                self.broken.fetch_add(1, Relaxed);
                continue;
            };
            match status {
                200 | 201 => return body,
                503 => drop(self.unavailable.fetch_add(1, Relaxed)),
                _ => assert_eq!(body["code"], "idempotency-key-in-progress", "{status}: {body}"),
            }
        }
        panic!("no definite response after {MAX_ATTEMPTS} attempts");
    }
}

/// Adds a body unless it is `null`.
fn with_body(request: RequestBuilder, body: &Value) -> RequestBuilder {
    if body.is_null() { request } else { request.json(body) }
}

fn id(value: &Value) -> Uuid {
    value.as_str().and_then(|id| id.parse().ok()).expect("an id")
}
