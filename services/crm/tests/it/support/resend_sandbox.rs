//! A sandbox of the HTTP provider that speaks its protocol: `POST /emails` with a key, and keys that are remembered.
//!
//! What happens is decided by the local part of the recipient: `invalid…` is refused, `limited…` is asked to wait once,
//! `lost…` is taken and its first answer is lost.

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Arc};
use tokio::net::TcpListener;

pub const API_KEY: &str = "re_test_key";

#[derive(Default)]
struct Sandbox {
    /// The mails by key, and the id of each.
    taken: HashMap<String, (String, Value)>,
    /// Every request, repetitions included.
    requests: Vec<(String, Value)>,
}

#[derive(Clone)]
pub struct ResendSandbox {
    pub url: String,
    state: Arc<Mutex<Sandbox>>,
}

impl ResendSandbox {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state: Arc<Mutex<Sandbox>> = Arc::default();
        let router = Router::new().route("/emails", post(send)).with_state(state.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, state }
    }

    /// Returns the mails that it has taken, each once.
    pub fn taken(&self) -> Vec<Value> {
        self.state.lock().taken.values().map(|(_, mail)| mail.clone()).collect()
    }

    /// Returns how many requests it received.
    pub fn requests(&self) -> usize {
        self.state.lock().requests.len()
    }
}

async fn send(State(state): State<Arc<Mutex<Sandbox>>>, headers: HeaderMap, Json(mail): Json<Value>) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    if header("authorization") != format!("Bearer {API_KEY}") {
        let error = json!({ "statusCode": 401, "name": "missing_api_key", "message": "The API key is invalid." });
        return (StatusCode::UNAUTHORIZED, Json(error)).into_response();
    }
    let (key, to) = (header("idempotency-key"), mail["to"][0].as_str().unwrap_or_default().to_owned());
    let mut sandbox = state.lock();
    let earlier = sandbox.requests.iter().filter(|(known, _)| *known == key).count();
    sandbox.requests.push((key.clone(), mail.clone()));
    if to.starts_with("invalid") {
        let error = json!({ "statusCode": 422, "name": "validation_error", "message": "Invalid `to` field." });
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(error)).into_response();
    }
    if to.starts_with("limited") && earlier == 0 {
        let error = json!({ "statusCode": 429, "name": "rate_limit_exceeded", "message": "Too many requests." });
        return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")], Json(error)).into_response();
    }
    if let Some((id, known)) = sandbox.taken.get(&key) {
        if *known != mail {
            let error = json!({ "statusCode": 409, "name": "invalid_idempotent_request", "message": "Another body." });
            return (StatusCode::CONFLICT, Json(error)).into_response();
        }
        return Json(json!({ "id": id })).into_response();
    }
    let id = uuid::Uuid::now_v7().to_string();
    sandbox.taken.insert(key, (id.clone(), mail));
    if to.starts_with("lost") {
        // The answer is cut off in the middle.
        return (StatusCode::OK, [("content-type", "application/json")], "{\"id\":").into_response();
    }
    Json(json!({ "id": id })).into_response()
}
