//! Loans to pay, made over HTTP, and payments that come over HTTP at a steady pace.

use crate::{
    server::{Bench, Instance},
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
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Bank {
    pub loans: Vec<Uuid>,
    http: Http,
    url: String,
    token: String,
    instance: Instance,
}

impl Bank {
    /// `count` funded loans of one product.
    pub(super) async fn open(bench: &Bench, count: usize) -> anyhow::Result<Self> {
        let mut instance = bench.instance()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        instance.serve_http(listener)?;
        let exp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs() + DAY_S;
        let claims =
            Claims { sub: "bench".into(), tenant: "bench".into(), roles: bench.roles(), exp, ..Claims::default() };
        let token = issue_hs256(bench.config().auth.secret.as_bytes(), &claims);
        let http = Http::builder().timeout(PATIENCE).build()?;
        let mut bank = Self { loans: Vec::new(), http, url, token, instance };
        bank.lend(bench, count).await?;
        Ok(bank)
    }

    async fn lend(&mut self, bench: &Bench, count: usize) -> anyhow::Result<()> {
        let worker = working(bench)?;
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
            self.settled(loan_id).await?;
            let path = format!("/api/loans/{loan_id}");
            let fund = json!({"action": "activate", "funded_on": today});
            let request = self.http.patch(format!("{}{path}", self.url)).bearer_auth(&self.token);
            let request = request.header("idempotency-key", Uuid::now_v7().to_string()).json(&fund);
            request.send().await?.error_for_status()?;
            self.settled(loan_id).await?;
            self.loans.push(loan_id);
        }
        worker.stop().await;
        Ok(())
    }

    async fn settled(&self, loan_id: Uuid) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let request = self.http.get(format!("{}/api/loans/{loan_id}/status", self.url)).bearer_auth(&self.token);
            let status: Value = request.send().await?.error_for_status()?.json().await?;
            match status["state"].as_str() {
                Some("processing") => {}
                Some("done") => return Ok(()),
                _ => anyhow::bail!("a loan was refused: {status}"),
            }
            anyhow::ensure!(Instant::now() < until, "a loan was not made in time");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        post(&self.http, &format!("{}{path}", self.url), &self.token, body).await
    }

    /// Sends payments at this pace for `time`; 95 of 100 were posted this long after they came in.
    pub(super) async fn end_to_end_p95_ms(
        &self,
        bench: &Bench,
        owner: &Client,
        a_second: u32,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let worker = working(bench)?;
        let began: jiff::Timestamp = owner.query_one(store::NOW, &[]).await?.get(0);
        let mut pace = tokio::time::interval(Duration::from_secs(1) / a_second);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let count = u64::from(a_second) * time.as_secs().max(1);
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
        let until = Instant::now() + PATIENCE;
        while owner.query_one(store::POSTED_SINCE, &[&began]).await?.get::<_, i64>(0) < i64::try_from(count)? {
            anyhow::ensure!(Instant::now() < until, "the payments were not posted in time");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        worker.stop().await;
        Ok(owner.query_one(store::E2E_P95_MS, &[&began]).await?.get(0))
    }

    pub(super) async fn close(self) {
        self.instance.stop().await;
    }
}

/// An instance that handles messages.
fn working(bench: &Bench) -> anyhow::Result<Instance> {
    let mut instance = bench.instance()?;
    instance.run_consumers();
    instance.run_relay();
    Ok(instance)
}

async fn post(http: &Http, url: &str, token: &str, body: &Value) -> anyhow::Result<Value> {
    let key = Uuid::now_v7().to_string();
    let answer = http.post(url).bearer_auth(token).header("idempotency-key", key).json(body).send().await?;
    let status = answer.status();
    let body: Value = answer.json().await?;
    anyhow::ensure!(matches!(status, StatusCode::CREATED | StatusCode::ACCEPTED), "{url} answered {status}: {body}");
    Ok(body)
}
