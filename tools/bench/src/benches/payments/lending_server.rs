//! The lending service over HTTP: creates loans, and sends payments at a steady rate.

use crate::{
    server::{Bench, PlatformInstance},
    store,
};
use anyhow::Context;
use onceward::web::{Claims, issue_hs256};
use reqwest::{Client as Http, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::{net::TcpListener, task::JoinSet, time::MissedTickBehavior};
use tokio_postgres::Client;
use uuid::Uuid;

const DAY_S: u64 = 24 * 60 * 60;
const TIMEOUT: Duration = Duration::from_secs(60);
/// The prefetch of the load test. PostgreSQL as the bus has no prefetch.
const PREFETCH: usize = 10;

pub(super) struct LendingServer {
    pub loans: Vec<Uuid>,
    http: Http,
    url: String,
    token: String,
    instance: PlatformInstance,
}

impl LendingServer {
    /// Starts the service and creates `count` funded loans of one product.
    pub(super) async fn start(bench: &Bench, count: usize) -> anyhow::Result<Self> {
        let mut instance = bench.instance()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        instance.serve_http(listener)?;
        let exp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs() + DAY_S;
        let claims =
            Claims { sub: "bench".into(), tenant: "bench".into(), roles: bench.roles(), exp, ..Claims::default() };
        let token = issue_hs256(bench.config().auth.secret.as_bytes(), &claims);
        let http = Http::builder().timeout(TIMEOUT).build()?;
        let mut server = Self { loans: Vec::new(), http, url, token, instance };
        server.create_loans(bench, count).await?;
        Ok(server)
    }

    async fn create_loans(&mut self, bench: &Bench, count: usize) -> anyhow::Result<()> {
        let worker = start_worker(bench)?;
        let product = json!({
            "code": "bench", "currency": "USD", "annual_rate": "0.06", "day_count": "30/360", "term_months": 360,
        });
        self.post("/api/products", &product).await?;
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
        for _ in 0..count {
            let borrower =
                self.post("/api/borrowers", &json!({"kind": "person", "display_name": "A Borrower"})).await?;
            let loan = json!({
                "borrower_entity_id": borrower["borrower_entity_id"], "product_code": "bench",
                "principal_minor": "100000000", "currency": "USD", "start_date": today,
            });
            let loan_id: Uuid = self.post("/api/loans", &loan).await?["loanId"].as_str().context("a loan")?.parse()?;
            self.wait_until_done(loan_id).await?;
            let path = format!("/api/loans/{loan_id}");
            let fund = json!({"action": "activate", "funded_on": today});
            let request = self.http.patch(format!("{}{path}", self.url)).bearer_auth(&self.token);
            let request = request.header("idempotency-key", Uuid::now_v7().to_string()).json(&fund);
            request.send().await?.error_for_status()?;
            self.wait_until_done(loan_id).await?;
            self.loans.push(loan_id);
        }
        worker.stop().await;
        Ok(())
    }

    async fn wait_until_done(&self, loan_id: Uuid) -> anyhow::Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let request = self.http.get(format!("{}/api/loans/{loan_id}/status", self.url)).bearer_auth(&self.token);
            let status: Value = request.send().await?.error_for_status()?.json().await?;
            match status["state"].as_str() {
                Some("processing") => {}
                Some("done") => return Ok(()),
                _ => anyhow::bail!("a loan command was refused: {status}"),
            }
            anyhow::ensure!(Instant::now() < deadline, "a loan command was not done within {TIMEOUT:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        post(&self.http, &format!("{}{path}", self.url), &self.token, body).await
    }

    /// Sends `per_second` payments per second for `time`. Returns the 95th percentile of the time from receipt to
    /// posting. The worker uses the prefetch of the load test and the default number of posters, one per core.
    pub(super) async fn end_to_end_p95_ms(
        &self,
        bench: &Bench,
        owner: &Client,
        per_second: u32,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let mut worker = bench.instance_with(|config| config.bus.prefetch = PREFETCH)?;
        worker.run_consumers();
        worker.run_relay();
        let started: jiff::Timestamp = owner.query_one(store::NOW, &[]).await?.get(0);
        let mut pace = tokio::time::interval(Duration::from_secs(1) / per_second);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let count = u64::from(per_second) * time.as_secs().max(1);
        let mut sent = JoinSet::new();
        for number in 0..count {
            pace.tick().await;
            let (http, token) = (self.http.clone(), self.token.clone());
            let url = format!("{}/payments/intake/mock", self.url);
            let loan = self.loans[number as usize % self.loans.len()];
            sent.spawn(async move {
                let payment = json!({"txn_id": Uuid::now_v7(), "loan_id": loan, "amount_minor": "100"});
                post(&http, &url, &token, &payment).await
            });
        }
        while let Some(sent) = sent.join_next().await {
            sent??;
        }
        let deadline = Instant::now() + TIMEOUT;
        while owner.query_one(store::POSTED_SINCE, &[&started]).await?.get::<_, i64>(0) < i64::try_from(count)? {
            anyhow::ensure!(Instant::now() < deadline, "the payments were not posted within {TIMEOUT:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        worker.stop().await;
        Ok(owner.query_one(store::E2E_P95_MS, &[&started]).await?.get(0))
    }

    pub(super) async fn stop(self) {
        self.instance.stop().await;
    }
}

/// Starts an instance that runs consumers and the relay.
fn start_worker(bench: &Bench) -> anyhow::Result<PlatformInstance> {
    let mut instance = bench.instance()?;
    instance.run_consumers();
    instance.run_relay();
    Ok(instance)
}

async fn post(http: &Http, url: &str, token: &str, body: &Value) -> anyhow::Result<Value> {
    let key = Uuid::now_v7().to_string();
    let response = http.post(url).bearer_auth(token).header("idempotency-key", key).json(body).send().await?;
    let status = response.status();
    let body: Value = response.json().await?;
    anyhow::ensure!(matches!(status, StatusCode::CREATED | StatusCode::ACCEPTED), "{url} returned {status}: {body}");
    Ok(body)
}
