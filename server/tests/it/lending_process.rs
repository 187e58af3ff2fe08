//! The program as separate processes, with loans to pay: each process has metrics to which nothing else adds.

use crate::{
    payment_kills::{lending_client::LendingClient, loans::create_loans},
    support::{Process, Scratch, http, migrated_database, run},
};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use onceward_testkit::{HttpResponse, SECRET, TestDb, eventually, free_port, pending_work, wait_until_ready};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio_postgres::Client;
use uuid::Uuid;

pub const ACME: usize = 0;

pub fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

/// A database, the variables that all processes share, and the processes.
pub struct LendingProcesses {
    /// Removes the database when dropped.
    _database: TestDb,
    pub owner: Client,
    scratch: Scratch,
    variables: Vec<(String, String)>,
    running: Vec<Process>,
}

impl LendingProcesses {
    /// Starts nothing yet. `variables` are added to those that every process needs.
    pub async fn new(variables: &[(&str, &str)]) -> Self {
        let database = migrated_database().await;
        let owner = database.owner().await;
        let url = database.url();
        let own = [
            ("DATABASE_URL", url.as_str()),
            ("ONCEWARD_AUTH_SECRET", SECRET),
            ("ONCEWARD_LENDING_MOCK_PROVIDER", "true"),
            ("ONCEWARD_LENDING_ACCRUAL_CRON", "0 0 29 2 *"),
        ];
        let all = own.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let new =
            Self { owner, scratch: Scratch::new(), variables: all.collect(), running: Vec::new(), _database: database };
        // Messages use the bus that the variables name.
        let migrated = run(&["migrate"], &new.variables()).await;
        assert!(migrated.status.success(), "{migrated:?}");
        new
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Starts a process with these roles and waits until it is ready; returns its URL.
    pub async fn start(&mut self, roles: &[&str]) -> String {
        let listen = format!("127.0.0.1:{}", free_port());
        let mut args = vec!["serve", "--listen", &listen];
        args.extend(roles.iter().flat_map(|role| ["--role", role]));
        let log = self.scratch.join(&format!("{}.log", roles.join("-")));
        self.running.push(Process::start(&args, &self.variables(), &log));
        let url = format!("http://{listen}");
        wait_until_ready(&url).await;
        url
    }

    /// Waits until every published message is handled.
    pub async fn wait_until_handled(&self) {
        let nothing_left = || async { pending_work(&self.owner).await.is_empty().then_some(()) };
        eventually("everything is handled", nothing_left).await;
    }

    /// Returns the first column of the first row, as the owner sees it.
    pub async fn count(&self, sql: &str) -> i64 {
        self.owner.query_one(sql, &[]).await.expect("a count").get(0)
    }

    /// Ends the process that was started last.
    pub async fn stop_last(&mut self) {
        let mut last = self.running.pop().expect("a process runs");
        assert!(last.stop_with("TERM").await.success(), "it stops cleanly");
    }

    pub async fn stop(&mut self) {
        for process in &mut self.running {
            assert!(process.stop_with("TERM").await.success(), "it stops cleanly");
        }
    }
}

/// Creates a funded loan of acme.
pub async fn create_loan(lending: &LendingClient) -> Uuid {
    create_loans(lending, today(), 1).await[0]
}

/// Sends a payment by the mock gateway; `overrides` are added to the body.
pub async fn pay(
    lending: &LendingClient,
    loan_id: Uuid,
    txn: &str,
    amount_minor: &str,
    overrides: Value,
) -> HttpResponse {
    let mut body = json!({"txn_id": txn, "loan_id": loan_id, "amount_minor": amount_minor, "method": "ach"});
    for (name, value) in overrides.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    lending.send(Method::POST, ACME, "/payments/intake/mock", txn, &body).await
}

/// Returns the current value of each series of `/metrics`.
pub async fn read_metrics(url: &str) -> HashMap<String, f64> {
    let text = HttpResponse::to(http().get(format!("{url}/metrics"))).await.text;
    let series = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    series.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}
