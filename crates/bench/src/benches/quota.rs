//! Page submits over HTTP that all want a place in one nearly full bucket, with the relay running.

use crate::{
    Settings,
    figure::{Figure, Progress},
    server::{Bench, Instance},
    store,
};
use anyhow::Context;
use onceward::{
    transport::BusKind,
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
/// Respondents who ask at the same time, as in the proof that no bucket overfills.
const AT_ONCE: usize = 64;
/// Places that are left in the bucket.
const PLACES: i64 = 100;
const SUBMITS_A_SECOND: f64 = 1_000.0;
/// The specification's: what was published a minute ago has left the outbox.
const LAG_MS: f64 = 60_000.0;
const LOOK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(120);
const DAY_S: u64 = 24 * 60 * 60;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let bus = settings.bus.unwrap_or(BusKind::Kafka);
    let sessions = settings.messages.unwrap_or(SESSIONS);
    let at_once = settings.clients_or(AT_ONCE);
    let mut progress =
        Progress::new(format!("quota: {sessions} respondents, {at_once} at once, {PLACES} places, on {}", bus.name()));
    let unlimited = onceward_surveys::Settings { rate_per_s: 0, ..onceward_surveys::Settings::default() };
    let surveys = onceward_surveys::service(unlimited.or_derived_from(&Uuid::new_v4().to_string()));
    let bench = Bench::of(settings, bus, vec![surveys]).await?;
    let owner = bench.owner().await?;
    let house = House::open(&bench).await?;
    let link = house.survey().await?;

    progress.at("respondents come in");
    let waiting = house.respondents(&link, sessions, at_once).await?;
    progress.at("they submit a page");
    let watched = Watch::begin(bench.owner().await?);
    let started = Instant::now();
    let outcomes = house.submit_all(waiting, at_once).await?;
    let rate = sessions as f64 / started.elapsed().as_secs_f64();
    progress.at(format!("{rate:.0} submits/s; the outbox drains"));
    let drained_ms = drained(&owner).await?;
    let lag_ms = watched.end().await?;

    let row = owner.query_one(store::QUOTA_TAKEN, &[]).await?;
    let (taken, most): (i64, i64) = (row.get(0), row.get(1));
    let let_in = outcomes.get("active").copied().unwrap_or(0);
    anyhow::ensure!(
        taken == let_in && taken >= most,
        "{taken} of {most} places are taken, and respondents heard {outcomes:?}"
    );
    house.close().await;
    bench.end().await?;
    Ok(vec![
        Figure::reaches("quota", "page_submits", rate, "submits/s", SUBMITS_A_SECOND),
        Figure::at_most("quota", "overfill", (taken - most) as f64, "places", 0.0),
        Figure::at_most("quota", "outbox_lag", lag_ms, "ms", LAG_MS),
        Figure::at_most("quota", "outbox_drained_after", drained_ms, "ms", LAG_MS),
    ])
}

/// Surveys that are served over HTTP, with the relay beside. Consumers would run elsewhere.
struct House {
    http: Http,
    url: String,
    token: String,
    instance: Instance,
}

/// A respondent who has begun.
struct Respondent {
    session: Uuid,
    token: String,
}

impl House {
    async fn open(bench: &Bench) -> anyhow::Result<Self> {
        let mut instance = bench.instance()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        instance.serve_http(listener)?;
        instance.run_relay();
        let exp = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() + DAY_S;
        let claims =
            Claims { sub: "bench".into(), tenant: "bench".into(), roles: bench.roles(), exp, ..Claims::default() };
        let token = issue_hs256(bench.config().auth.secret.as_bytes(), &claims);
        Ok(Self { http: Http::builder().timeout(PATIENCE).build()?, url, token, instance })
    }

    /// A survey whose first page decides about the bucket. Gives the token of its link.
    async fn survey(&self) -> anyhow::Result<String> {
        let choice = |id: &str, options: &[&str]| {
            let options: Vec<Value> = options.iter().map(|id| json!({"id": id, "label": id})).collect();
            json!({"id": id, "type": "single", "text": id, "required": true, "options": options})
        };
        let definition = json!({"pages": [
            {"id": "drinks", "questions": [choice("drink", &["tea", "coffee"])]},
            {"id": "foods", "questions": [choice("food", &["bread", "cake"])]},
        ]});
        let made = self.author("/api/surveys", Some(&json!({"title": "Bench", "definition": definition}))).await?;
        let survey = made["survey_id"].as_str().context("a survey")?.to_owned();
        self.author(&format!("/api/surveys/{survey}/publish"), None).await?;
        let bucket =
            json!({"name": "tea", "target": PLACES, "condition": {"equals": {"question": "drink", "value": "tea"}}});
        self.author(&format!("/api/surveys/{survey}/quotas"), Some(&json!({ "buckets": [bucket] }))).await?;
        let collector = json!({"name": "all", "kind": "link"});
        let made = self.author(&format!("/api/surveys/{survey}/collectors"), Some(&collector)).await?;
        let id = made["collector_id"].as_str().context("a collector")?;
        self.author(&format!("/api/collectors/{id}/open"), None).await?;
        Ok(made["token"].as_str().context("the token of a link")?.to_owned())
    }

    async fn author(&self, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.token);
        let request = request.header("idempotency-key", Uuid::now_v7().to_string());
        answer(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    async fn respondents(&self, link: &str, count: u64, clients: usize) -> anyhow::Result<Vec<Respondent>> {
        let requests = (0..count).map(|_| {
            let request = self.http.post(format!("{}/runtime/start", self.url)).bearer_auth(link);
            request.header("idempotency-key", Uuid::now_v7().to_string())
        });
        let begun = all(requests.collect(), clients).await?;
        begun
            .iter()
            .map(|begun| {
                let session = begun["session_id"].as_str().context("a session")?.parse()?;
                Ok(Respondent { session, token: begun["token"].as_str().context("a token")?.to_owned() })
            })
            .collect()
    }

    /// Everybody wants tea. Gives how many ended up how.
    async fn submit_all(&self, respondents: Vec<Respondent>, clients: usize) -> anyhow::Result<HashMap<String, i64>> {
        let body = json!({"page_id": "drinks", "attempt": 1, "answers": {"drink": "tea"}});
        let requests = respondents.iter().map(|Respondent { session, token }| {
            self.http.post(format!("{}/runtime/{session}/answers", self.url)).bearer_auth(token).json(&body)
        });
        let mut outcomes = HashMap::new();
        for answer in all(requests.collect(), clients).await? {
            *outcomes.entry(answer["status"].as_str().unwrap_or("no status").to_owned()).or_default() += 1;
        }
        Ok(outcomes)
    }

    async fn close(self) {
        self.instance.stop().await;
    }
}

/// Sends all of them, by `clients` at a time.
async fn all(requests: Vec<RequestBuilder>, clients: usize) -> anyhow::Result<Vec<Value>> {
    let requests = Arc::new(Mutex::new(requests));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let requests = requests.clone();
        tasks.spawn(async move {
            let mut answers = Vec::new();
            loop {
                let Some(request) = requests.lock().await.pop() else {
                    return anyhow::Ok(answers);
                };
                answers.push(answer(request).await?);
            }
        });
    }
    let mut answers = Vec::new();
    while let Some(task) = tasks.join_next().await {
        answers.extend(task??);
    }
    Ok(answers)
}

async fn answer(request: RequestBuilder) -> anyhow::Result<Value> {
    let response = request.send().await?;
    let status = response.status();
    let body: Value = response.json().await?;
    anyhow::ensure!(status.is_success(), "surveys answered {status}: {body}");
    Ok(body)
}

/// Looks how long the oldest message has been waiting.
struct Watch {
    task: tokio::task::JoinHandle<anyhow::Result<f64>>,
    stop: CancellationToken,
}

impl Watch {
    fn begin(owner: Client) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut most_ms = 0.0_f64;
            while !stopped.is_cancelled() {
                most_ms = most_ms.max(owner.query_one(store::OUTBOX_LAG_MS, &[]).await?.get(0));
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(most_ms)
        });
        Self { task, stop }
    }

    /// The longest that was seen, in milliseconds.
    async fn end(self) -> anyhow::Result<f64> {
        self.stop.cancel();
        self.task.await?
    }
}

/// Waits until the outbox is empty; gives how many milliseconds that took.
async fn drained(owner: &Client) -> anyhow::Result<f64> {
    let started = Instant::now();
    while owner.query_one(store::OUTBOX_DEPTH, &[]).await?.get::<_, i64>(0) > 0 {
        anyhow::ensure!(started.elapsed() < PATIENCE, "the outbox did not drain in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(started.elapsed().as_secs_f64() * 1000.0)
}
