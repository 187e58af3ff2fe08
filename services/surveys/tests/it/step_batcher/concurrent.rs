//! Requests that are certain to arrive at the same time: batches are blocked until all of them are waiting.

use crate::support::*;
use futures_util::future::join_all;
use onceward_testkit::eventually;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Notify;
use uuid::Uuid;

/// The maximum number of waiting steps.
pub const QUEUE_MAX: usize = 12;
/// The maximum number of concurrent batches.
const CONCURRENT_BATCHES: i64 = 2;

/// A respondent's request and its correlation id.
#[derive(Clone)]
pub struct StepRequest<'s> {
    pub respondent: RespondentClient<'s>,
    pub kind: StepKind,
    pub correlation_id: String,
    /// Notified to cancel the request.
    pub cancel: Arc<Notify>,
}

#[derive(Clone)]
pub enum StepKind {
    Answer(u32, Value),
    Page(&'static str),
    Complete,
    Leave,
}

impl<'s> StepRequest<'s> {
    pub fn new(respondent: &RespondentClient<'s>, kind: StepKind) -> Self {
        Self {
            respondent: respondent.clone(),
            kind,
            correlation_id: Uuid::now_v7().to_string(),
            cancel: Arc::default(),
        }
    }

    pub async fn send(&self, server: &TestServer) -> HttpResponse {
        let (path, body) = match &self.kind {
            StepKind::Answer(attempt, answers) => {
                ("/answers", json!({"page_id": "only", "attempt": attempt, "answers": answers}))
            }
            StepKind::Page(page) => ("/answers", json!({"page_id": page, "attempt": 1, "answers": {}})),
            StepKind::Complete => ("/complete", json!({})),
            StepKind::Leave => ("/terminate", json!({"reason": "by_respondent"})),
        };
        let request = server.http.post(self.respondent.path(path)).bearer_auth(&self.respondent.token).json(&body);
        HttpResponse::to(request.header("x-correlation-id", &self.correlation_id)).await
    }

    /// Retries until the queue has room, and notifies `full` when it has none. A cancelled request has status 0.
    async fn retry_while_full(&self, server: &TestServer, full: &Notify) -> HttpResponse {
        loop {
            let response = tokio::select! {
                response = self.send(server) => response,
                () = self.cancel.notified() => return cancelled(),
            };
            if response.status != 503 {
                return response;
            }
            assert!(response.headers.contains_key("retry-after"));
            assert_eq!(response.problem(503), "overloaded");
            full.notify_one();
            tokio::task::yield_now().await;
        }
    }
}

fn cancelled() -> HttpResponse {
    HttpResponse { status: 0, headers: HeaderMap::new(), body: Value::Null, text: String::new() }
}

/// Starts a service whose step queues are short.
pub async fn start_server() -> TestServer {
    TestServer::start_with(onceward_surveys::Settings { steps_waiting_max: QUEUE_MAX, ..settings() }, None).await
}

/// Sends all requests at once. At most one of them is refused because the queue is full, and retries.
pub async fn send_concurrently(server: &TestServer, link: &str, requests: &[StepRequest<'_>]) -> Vec<HttpResponse> {
    let author = server.author("acme");
    let mut others = Vec::new();
    for _ in 0..CONCURRENT_BATCHES as usize + QUEUE_MAX + 1 - requests.len() {
        let respondent = author.respondent(link).await;
        others.push(StepRequest::new(&respondent, StepKind::Answer(1, json!({"sex": "m", "region": "south"}))));
    }
    let (first, fillers) = others.split_at(CONCURRENT_BATCHES as usize);
    let locking = server.platform.database().owner().await;
    let sessions =
        first.iter().map(|request| format!("'{}'", request.respondent.session)).collect::<Vec<_>>().join(",");
    let lock = format!("BEGIN; SELECT 1 FROM surveys.session WHERE session_id IN ({sessions}) FOR UPDATE");
    locking.batch_execute(&lock).await.expect("the sessions can be locked");
    let full = Notify::new();
    let blocked = join_all(first.iter().map(|request| request.send(server)));
    let queued = async {
        wait_for_lock_waits(server, CONCURRENT_BATCHES).await;
        join_all(requests.iter().chain(fillers).map(|request| request.retry_while_full(server, &full))).await
    };
    let release = async {
        full.notified().await;
        locking.batch_execute("COMMIT").await.expect("the locks are released");
    };
    let (first, mut queued, ()) = tokio::join!(blocked, queued, release);
    let fillers = queued.split_off(requests.len());
    first.into_iter().chain(fillers).for_each(|response| drop(response.with_status(200)));
    queued
}

/// Waits until `count` transactions are waiting for a lock.
async fn wait_for_lock_waits(server: &TestServer, count: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("the batches wait for locks", || async {
        (server.query_value::<i64>(sql, &[]).await == count).then_some(())
    })
    .await;
}

/// Returns the number of distinct commits that last wrote the sessions.
pub async fn count_commits(server: &TestServer, requests: &[StepRequest<'_>]) -> i64 {
    let sessions: Vec<Uuid> = requests.iter().map(|request| request.respondent.session).collect();
    server
        .query_value("SELECT count(DISTINCT xmin::text) FROM surveys.session WHERE session_id = ANY ($1)", &[&sessions])
        .await
}
