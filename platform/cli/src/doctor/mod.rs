//! Finds problems of an installation, present and imminent, and says what to do about each.
//!
//! Each check examines one thing within a time limit. A check that cannot run reports that as its own finding, because
//! silence would be mistaken for health.

mod breakers;
mod bus;
mod clock;
mod dead_letters;
mod indexes;
mod log;
mod pooler;
mod schema;
mod server;
mod sessions;
mod store;
mod vacuum;

use onceward::{Config, Platform};
use onceward_db::{Client, Db, DbError, Row, ToSql, migrate};
use serde::Serialize;
use std::{future::Future, pin::Pin, time::Duration};
use tokio::time::Instant;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// Work has stopped, or a guarantee does not hold.
    Critical,
    /// The problem will become critical, or it hides another one.
    Warning,
}

/// A problem to fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorFinding {
    /// The name of the check that found it.
    pub check: &'static str,
    /// Its severity.
    pub severity: FindingSeverity,
    /// The problem.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl DoctorFinding {
    fn critical(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check: "", severity: FindingSeverity::Critical, what: what.into(), advice: advice.into() }
    }

    fn warning(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check: "", severity: FindingSeverity::Warning, what: what.into(), advice: advice.into() }
    }
}

/// When something counts as a problem, and how long the checks may take.
#[derive(Clone, Copy, Debug)]
pub struct DoctorLimits {
    /// How long a transaction, a lane or a schedule may make no progress.
    pub stalled_after: Duration,
    /// The time limit of one check.
    pub per_check: Duration,
    /// The time limit of all checks together.
    pub total: Duration,
}

impl Default for DoctorLimits {
    fn default() -> Self {
        Self {
            stalled_after: Duration::from_secs(300),
            per_check: Duration::from_secs(10),
            total: Duration::from_secs(90),
        }
    }
}

/// One check. In JSON it is its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct DoctorCheck {
    /// Its name, which its findings carry.
    pub name: &'static str,
    /// The statement that holds when it finds nothing, for readers of a report without findings.
    #[serde(skip)]
    pub about: &'static str,
}

const fn check(name: &'static str, about: &'static str) -> DoctorCheck {
    DoctorCheck { name, about }
}

/// The findings, the worst first.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// The checks that were run or attempted, in this order.
    pub checks: Vec<DoctorCheck>,
    /// Their findings.
    pub findings: Vec<DoctorFinding>,
}

/// Everything that a check needs.
struct CheckContext<'a> {
    platform: &'a Platform,
    config: &'a Config,
    limits: DoctorLimits,
    /// A connection as the owner, which sees all tenants and the sessions of its own role.
    owner: Client,
    /// Connections as the application.
    db: Db,
    /// Whether the database contains anything of ours at all.
    migrated: bool,
}

type CheckFuture<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Vec<DoctorFinding>>> + Send + 'a>>;

/// Runs all checks and returns their report.
pub async fn run_checks(platform: &Platform, config: &Config, limits: DoctorLimits) -> DoctorReport {
    let mut report = DoctorReport { checks: Vec::new(), findings: Vec::new() };
    let deadline = Instant::now() + limits.total;
    match connect(config, limits).await {
        Ok((owner, db, migrated)) => {
            let context = CheckContext { platform, config, limits, owner, db, migrated };
            for (check, findings) in checks(&context) {
                report.run(check, findings, limits, deadline).await;
            }
        }
        Err(error) => report.add(
            check("database", "the database responds"),
            vec![DoctorFinding::critical(
                format!("the database cannot be reached: {error}"),
                "set DATABASE_URL to a database that responds",
            )],
        ),
    }
    // The bus may be healthy although the database is not.
    let broker = check("broker", "the external bus responds and stores messages durably");
    report.run(broker, Box::pin(bus::broker(platform, config, limits.per_check)), limits, deadline).await;
    report.findings.sort_by_key(|finding| finding.severity);
    report
}

fn checks<'a>(context: &'a CheckContext<'a>) -> Vec<(DoctorCheck, CheckFuture<'a>)> {
    let mut checks: Vec<(DoctorCheck, CheckFuture<'a>)> = vec![
        (check("pooler", "sessions keep their settings between transactions"), Box::pin(pooler::check(context))),
        (check("settings", "PostgreSQL's settings protect committed data"), Box::pin(server::settings(context))),
        (check("connections", "the server has enough free connections"), Box::pin(server::connections(context))),
        (check("clock", "this machine's clock agrees with the database's"), Box::pin(clock::check(context))),
        (check("sessions", "no session holds a transaction open"), Box::pin(sessions::sessions(context))),
        (
            check("snapshots", "nothing else prevents the removal of dead rows"),
            Box::pin(sessions::other_snapshots(context)),
        ),
        (
            check("migrations", "every migration of this program is applied unchanged"),
            Box::pin(schema::migrations(context)),
        ),
    ];
    if context.migrated {
        checks.extend(schema_checks(context));
        checks.extend(bus_checks(context));
    }
    checks
}

fn schema_checks<'a>(context: &'a CheckContext<'a>) -> Vec<(DoctorCheck, CheckFuture<'a>)> {
    vec![
        (check("columns", "every column that the code reads exists"), Box::pin(schema::columns(context))),
        (check("indexes", "every index exists and is valid"), Box::pin(indexes::check(context))),
        (check("vacuum", "tables are vacuumed in time"), Box::pin(vacuum::check(context))),
        (
            check("partitions", "partitions of the log are opened and dropped on time"),
            Box::pin(log::partitions(context)),
        ),
        (check("lanes", "every lane with waiting messages makes progress"), Box::pin(log::lanes(context))),
        (
            check("deferred messages", "deferred messages are handled when they are due"),
            Box::pin(log::deferred(context)),
        ),
        (check("dead letters", "no dead letters are open"), Box::pin(dead_letters::open(context))),
        (check("breakers", "no destination is rejected for long"), Box::pin(breakers::open(context))),
        (check("held keys", "no dead letter has held its key for a day"), Box::pin(dead_letters::held_keys(context))),
        (
            check("stuck messages", "no message is retried for longer than its retry policy allows"),
            Box::pin(dead_letters::stuck_messages(context)),
        ),
        (
            check("unknown messages", "running workers know the type and version of every waiting message"),
            Box::pin(log::unknown_messages(context)),
        ),
        (check("schedules", "schedules publish on time"), Box::pin(log::schedules(context))),
    ]
}

fn bus_checks<'a>(context: &'a CheckContext<'a>) -> Vec<(DoctorCheck, CheckFuture<'a>)> {
    vec![
        (check("bus", "the settings and the database name the same bus"), Box::pin(bus::same_bus(context))),
        (check("relays", "relays are running and reach the bus"), Box::pin(bus::relays(context))),
        (check("outbox", "no messages are left in the outbox for another bus"), Box::pin(bus::leftovers(context))),
        (
            check(
                "backlog",
                "queues on the external bus are read on time, and dead-letter queues are within their limit",
            ),
            Box::pin(bus::backlog(context)),
        ),
        (
            check("unrouted", "a queue is bound to the topic of every published message"),
            Box::pin(bus::unrouted(context)),
        ),
    ]
}

async fn connect(config: &Config, limits: DoctorLimits) -> anyhow::Result<(Client, Db, bool)> {
    anyhow::ensure!(!config.database.url.is_empty(), "none is configured");
    let connection = async {
        let owner = migrate::owner(&config.db()).await?;
        let bound = format!("SET statement_timeout = {}; SET TimeZone = 'UTC'", limits.per_check.as_millis());
        owner.batch_execute(&bound).await.map_err(DbError::from)?;
        let migrated = owner.query_one(store::MIGRATED, &[]).await.map_err(DbError::from)?.get(0);
        Ok((owner, Db::connect(config.db())?, migrated))
    };
    let timed_out = || Err(anyhow::anyhow!("no response within {} s", limits.per_check.as_secs()));
    tokio::time::timeout(limits.per_check, connection).await.unwrap_or_else(|_| timed_out())
}

impl DoctorReport {
    fn add(&mut self, check: DoctorCheck, findings: Vec<DoctorFinding>) {
        self.checks.push(check);
        self.findings.extend(findings.into_iter().map(|finding| DoctorFinding { check: check.name, ..finding }));
    }

    async fn run(&mut self, check: DoctorCheck, findings: CheckFuture<'_>, limits: DoctorLimits, deadline: Instant) {
        let until = deadline.min(Instant::now() + limits.per_check);
        let failed = |why: String| {
            let advice =
                "see the other findings for the cause, or run `onceward doctor` again when the database is less busy";
            vec![DoctorFinding::warning(format!("this check could not run: {why}"), advice)]
        };
        let findings = match tokio::time::timeout_at(until, findings).await {
            Ok(Ok(findings)) => findings,
            Ok(Err(error)) => failed(error.to_string()),
            Err(_) => failed("it took too long".into()),
        };
        self.add(check, findings);
    }
}

impl CheckContext<'_> {
    async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        Ok(self.owner.query(sql, params).await?)
    }

    fn stalled_after_s(&self) -> f64 {
        self.limits.stalled_after.as_secs_f64()
    }
}

/// Formats a duration for people.
fn humanize(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}
