//! What is wrong, or soon will be, and what to do about it.
//!
//! Each check looks at one thing and has a bounded time for it. One that cannot look says so, as a finding of its own:
//! silence would be taken for health.

mod bus;
mod clock;
mod indexes;
mod log;
mod pooler;
mod schema;
mod server;
mod sessions;
mod store;
mod vacuum;

use crate::{Config, Platform};
use onceward_db::{Client, Db, DbError, Row, ToSql, migrate};
use serde::Serialize;
use std::{future::Future, pin::Pin, time::Duration};
use tokio::time::Instant;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Work stands still, or what was promised does not hold.
    Critical,
    /// It will get there, or it hides something.
    Warning,
}

/// Something to put right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Who found it.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    fn critical(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check: "", severity: Severity::Critical, what: what.into(), advice: advice.into() }
    }

    fn warning(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check: "", severity: Severity::Warning, what: what.into(), advice: advice.into() }
    }
}

/// From when on something counts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A transaction, a lane or a schedule that stands still for longer.
    pub long: Duration,
    /// One check may take this long,
    pub check: Duration,
    /// and all of them together this long.
    pub all: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { long: Duration::from_secs(300), check: Duration::from_secs(10), all: Duration::from_secs(90) }
    }
}

/// What was found, the worst first.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The checks that were made or tried.
    pub checks: Vec<&'static str>,
    /// What they found.
    pub findings: Vec<Finding>,
}

/// Whom the checks look at.
struct Patient<'a> {
    platform: &'a Platform,
    config: &'a Config,
    limits: Limits,
    /// As the owner: sees all tenants, and the sessions of its own role.
    owner: Client,
    /// As the application.
    db: Db,
    /// Anything of ours is in it at all.
    migrated: bool,
}

type Checked<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Vec<Finding>>> + Send + 'a>>;

/// Looks at everything.
pub async fn examine(platform: &Platform, config: &Config, limits: Limits) -> Report {
    let mut report = Report { checks: Vec::new(), findings: Vec::new() };
    let deadline = Instant::now() + limits.all;
    match reach(config, limits).await {
        Ok((owner, db, migrated)) => {
            let patient = Patient { platform, config, limits, owner, db, migrated };
            for (name, check) in checks(&patient) {
                report.run(name, check, limits, deadline).await;
            }
        }
        Err(error) => report.add(
            "database",
            vec![Finding::critical(
                format!("the database cannot be asked: {error}"),
                "set DATABASE_URL to one that answers",
            )],
        ),
    }
    // The bus may be well although the database is not.
    report.run("broker", Box::pin(bus::broker(platform, config, limits.check)), limits, deadline).await;
    report.findings.sort_by_key(|finding| finding.severity);
    report
}

fn checks<'a>(patient: &'a Patient<'a>) -> Vec<(&'static str, Checked<'a>)> {
    let mut checks: Vec<(&'static str, Checked<'a>)> = vec![
        ("pooler", Box::pin(pooler::check(patient))),
        ("settings", Box::pin(server::settings(patient))),
        ("connections", Box::pin(server::connections(patient))),
        ("clock", Box::pin(clock::check(patient))),
        ("sessions", Box::pin(sessions::sessions(patient))),
        ("snapshots", Box::pin(sessions::others_that_pin(patient))),
        ("migrations", Box::pin(schema::migrations(patient))),
    ];
    if patient.migrated {
        checks.extend(checks_of_our_tables(patient));
    }
    checks
}

fn checks_of_our_tables<'a>(patient: &'a Patient<'a>) -> Vec<(&'static str, Checked<'a>)> {
    vec![
        ("columns", Box::pin(schema::columns(patient))),
        ("indexes", Box::pin(indexes::check(patient))),
        ("vacuum", Box::pin(vacuum::check(patient))),
        ("partitions", Box::pin(log::partitions(patient))),
        ("lanes", Box::pin(log::lanes(patient))),
        ("put aside", Box::pin(log::put_aside(patient))),
        ("schedules", Box::pin(log::schedules(patient))),
        ("bus", Box::pin(bus::same_bus(patient))),
        ("relays", Box::pin(bus::relays(patient))),
        ("outbox", Box::pin(bus::leftovers(patient))),
    ]
}

async fn reach(config: &Config, limits: Limits) -> anyhow::Result<(Client, Db, bool)> {
    anyhow::ensure!(!config.database.url.is_empty(), "none is named");
    let reached = async {
        let owner = migrate::owner(&config.db()).await?;
        let bound = format!("SET statement_timeout = {}; SET TimeZone = 'UTC'", limits.check.as_millis());
        owner.batch_execute(&bound).await.map_err(DbError::from)?;
        let migrated = owner.query_one(store::MIGRATED, &[]).await.map_err(DbError::from)?.get(0);
        Ok((owner, Db::connect(config.db())?, migrated))
    };
    let late = || Err(anyhow::anyhow!("no answer within {} s", limits.check.as_secs()));
    tokio::time::timeout(limits.check, reached).await.unwrap_or_else(|_| late())
}

impl Report {
    fn add(&mut self, check: &'static str, findings: Vec<Finding>) {
        self.checks.push(check);
        self.findings.extend(findings.into_iter().map(|finding| Finding { check, ..finding }));
    }

    async fn run(&mut self, name: &'static str, check: Checked<'_>, limits: Limits, deadline: Instant) {
        let until = deadline.min(Instant::now() + limits.check);
        let failed = |why: String| {
            let advice = "the other findings may say why; else look again when the database is less busy";
            vec![Finding::warning(format!("this could not be looked at: {why}"), advice)]
        };
        let findings = match tokio::time::timeout_at(until, check).await {
            Ok(Ok(findings)) => findings,
            Ok(Err(error)) => failed(error.to_string()),
            Err(_) => failed("there was no time left for it".into()),
        };
        self.add(name, findings);
    }
}

impl Patient<'_> {
    async fn ask(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        Ok(self.owner.query(sql, params).await?)
    }

    fn long_s(&self) -> f64 {
        self.limits.long.as_secs_f64()
    }
}

/// A length of time as people say it.
fn words(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}
