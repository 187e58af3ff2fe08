//! Page submits over HTTP that compete for one nearly full quota bucket, with the relay running.

use crate::{
    BenchSettings,
    figure::{Figure, ProgressReporter},
    server::{Bench, PlatformInstance},
    store,
};
use anyhow::Context;
use onceward::{
    broker::BusKind,
    web::{Claims, issue_hs256},
};
use reqwest::{Client as Http, RequestBuilder};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{net::TcpListener, sync::Mutex, task::JoinSet};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const SESSIONS: u64 = 8_000;
/// The number of concurrent respondents, as in the test that no bucket overfills.
const CONCURRENT_RESPONDENTS: usize = 64;
/// The free places in the bucket.
const PLACES: i64 = 100;
const MIN_SUBMITS_PER_SECOND: f64 = 1_000.0;
/// The required outbox lag: messages leave the outbox within a minute.
const MAX_LAG_MS: f64 = 60_000.0;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(120);
const DAY_S: u64 = 24 * 60 * 60;

pub(crate) async fn run(settings: &BenchSettings) -> anyhow::Result<Vec<Figure>> {
    let bus = settings.bus.unwrap_or(BusKind::Kafka);
    let sessions = settings.messages.unwrap_or(SESSIONS);
    let clients = settings.clients_or(CONCURRENT_RESPONDENTS);
    let mut progress = ProgressReporter::new(format!(
        "quota: {sessions} respondents, {clients} concurrent, {PLACES} places, on {}",
        bus.name()
    ));
    let unlimited = onceward_surveys::Settings { rate_per_s: 0, ..onceward_surveys::Settings::default() };
    let surveys = onceward_surveys::service(unlimited.or_derived_from(&Uuid::new_v4().to_string()));
    let bench = Bench::with_services(settings, bus, vec![surveys]).await?;
    let owner = bench.owner().await?;
    let server = SurveyServer::start(&bench).await?;
    let link = server.create_survey().await?;

    progress.report("starting the sessions");
    let respondents = server.start_sessions(&link, sessions, clients).await?;
    progress.report("submitting pages");
    let lag_monitor = OutboxLagMonitor::start(bench.owner().await?);
    let started = Instant::now();
    let outcomes = server.submit_all(respondents, clients).await?;
    let rate = sessions as f64 / started.elapsed().as_secs_f64();
    progress.report(format!("{rate:.0} submits/s; draining the outbox"));
    let drained_ms = wait_until_drained(&owner).await?;
    let lag_ms = lag_monitor.stop().await?;

    let row = owner.query_one(store::QUOTA_TAKEN, &[]).await?;
    let (taken, capacity): (i64, i64) = (row.get(0), row.get(1));
    let admitted = outcomes.get("active").copied().unwrap_or(0);
    anyhow::ensure!(
        taken == admitted && taken >= capacity,
        "{taken} of {capacity} places are taken, but the respondents got {outcomes:?}"
    );
    server.stop().await;
    bench.shut_down().await?;
    Ok(vec![
        Figure::at_least_absolute("quota", "page_submits", rate, "submits/s", MIN_SUBMITS_PER_SECOND),
        Figure::at_most("quota", "overfill", (taken - capacity) as f64, "places", 0.0),
        Figure::at_most("quota", "outbox_lag", lag_ms, "ms", MAX_LAG_MS),
        Figure::at_most("quota", "outbox_drained_after", drained_ms, "ms", MAX_LAG_MS),
    ])
}

/// The survey service over HTTP, with the relay. Consumers are not measured and do not run.
struct SurveyServer {
    http: Http,
    url: String,
    token: String,
    instance: PlatformInstance,
}

/// A respondent with a started session.
struct Respondent {
    session: Uuid,
    token: String,
}

impl SurveyServer {
    async fn start(bench: &Bench) -> anyhow::Result<Self> {
        let mut instance = bench.instance()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        instance.serve_http(listener)?;
        instance.run_relay();
        let exp = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() + DAY_S;
        let claims =
            Claims { sub: "bench".into(), tenant: "bench".into(), roles: bench.roles(), exp, ..Claims::default() };
        let token = issue_hs256(bench.config().auth.secret.as_bytes(), &claims);
        Ok(Self { http: Http::builder().timeout(TIMEOUT).build()?, url, token, instance })
    }

    /// Creates a survey whose first page decides the bucket. Returns the token of its link.
    async fn create_survey(&self) -> anyhow::Result<String> {
        let choice = |id: &str, options: &[&str]| {
            let options: Vec<Value> = options.iter().map(|id| json!({"id": id, "label": id})).collect();
            json!({"id": id, "type": "single", "text": id, "required": true, "options": options})
        };
        let definition = json!({"pages": [
            {"id": "drinks", "questions": [choice("drink", &["tea", "coffee"])]},
            {"id": "foods", "questions": [choice("food", &["bread", "cake"])]},
        ]});
        let created = self.post("/api/surveys", Some(&json!({"title": "Bench", "definition": definition}))).await?;
        let survey = created["survey_id"].as_str().context("a survey")?.to_owned();
        self.post(&format!("/api/surveys/{survey}/publish"), None).await?;
        let bucket =
            json!({"name": "tea", "target": PLACES, "condition": {"equals": {"question": "drink", "value": "tea"}}});
        self.post(&format!("/api/surveys/{survey}/quotas"), Some(&json!({ "buckets": [bucket] }))).await?;
        let collector = json!({"name": "all", "kind": "link"});
        let created = self.post(&format!("/api/surveys/{survey}/collectors"), Some(&collector)).await?;
        let id = created["collector_id"].as_str().context("a collector")?;
        self.post(&format!("/api/collectors/{id}/open"), None).await?;
        Ok(created["token"].as_str().context("the token of a link")?.to_owned())
    }

    async fn post(&self, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.token);
        let request = request.header("idempotency-key", Uuid::now_v7().to_string());
        send(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    async fn start_sessions(&self, link: &str, count: u64, clients: usize) -> anyhow::Result<Vec<Respondent>> {
        let requests = (0..count).map(|_| {
            let request = self.http.post(format!("{}/runtime/start", self.url)).bearer_auth(link);
            request.header("idempotency-key", Uuid::now_v7().to_string())
        });
        let started = send_all(requests.collect(), clients).await?;
        started
            .iter()
            .map(|started| {
                let session = started["session_id"].as_str().context("a session")?.parse()?;
                Ok(Respondent { session, token: started["token"].as_str().context("a token")?.to_owned() })
            })
            .collect()
    }

    /// Submits the same answer for everyone. Returns the number of respondents per resulting status.
    async fn submit_all(&self, respondents: Vec<Respondent>, clients: usize) -> anyhow::Result<HashMap<String, i64>> {
        let body = json!({"page_id": "drinks", "attempt": 1, "answers": {"drink": "tea"}});
        let requests = respondents.iter().map(|Respondent { session, token }| {
            self.http.post(format!("{}/runtime/{session}/answers", self.url)).bearer_auth(token).json(&body)
        });
        let mut outcomes = HashMap::new();
        for response in send_all(requests.collect(), clients).await? {
            *outcomes.entry(response["status"].as_str().unwrap_or("no status").to_owned()).or_default() += 1;
        }
        Ok(outcomes)
    }

    async fn stop(self) {
        self.instance.stop().await;
    }
}

/// Sends all requests, `clients` at a time.
async fn send_all(requests: Vec<RequestBuilder>, clients: usize) -> anyhow::Result<Vec<Value>> {
    let requests = Arc::new(Mutex::new(requests));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let requests = requests.clone();
        tasks.spawn(async move {
            let mut responses = Vec::new();
            loop {
                let Some(request) = requests.lock().await.pop() else {
                    return anyhow::Ok(responses);
                };
                responses.push(send(request).await?);
            }
        });
    }
    let mut responses = Vec::new();
    while let Some(task) = tasks.join_next().await {
        responses.extend(task??);
    }
    Ok(responses)
}

async fn send(request: RequestBuilder) -> anyhow::Result<Value> {
    let response = request.send().await?;
    let status = response.status();
    let body: Value = response.json().await?;
    anyhow::ensure!(status.is_success(), "the survey service returned {status}: {body}");
    Ok(body)
}

/// Polls the age of the oldest message in the outbox.
struct OutboxLagMonitor {
    task: tokio::task::JoinHandle<anyhow::Result<f64>>,
    stop: CancellationToken,
}

impl OutboxLagMonitor {
    fn start(owner: Client) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut max_ms = 0.0_f64;
            while !stopped.is_cancelled() {
                max_ms = max_ms.max(owner.query_one(store::OUTBOX_LAG_MS, &[]).await?.get(0));
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok(max_ms)
        });
        Self { task, stop }
    }

    /// Stops polling. Returns the maximum age in milliseconds.
    async fn stop(self) -> anyhow::Result<f64> {
        self.stop.cancel();
        self.task.await?
    }
}

/// Waits until the outbox is empty. Returns how many milliseconds that took.
async fn wait_until_drained(owner: &Client) -> anyhow::Result<f64> {
    let started = Instant::now();
    while owner.query_one(store::OUTBOX_DEPTH, &[]).await?.get::<_, i64>(0) > 0 {
        anyhow::ensure!(started.elapsed() < TIMEOUT, "the outbox was not drained within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(started.elapsed().as_secs_f64() * 1000.0)
}
