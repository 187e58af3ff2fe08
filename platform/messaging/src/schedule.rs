//! Schedules: cron ticks that are published once across all instances.
//!
//! A schedule's next tick is a row. The process that locks it publishes the tick and advances the row, in one
//! transaction; the tick's idempotency key makes even a restored backup harmless. Each schedule has its own
//! transaction, so that one that cannot be published blocks no other, and all of them use the database's clock.

mod timetable;

use crate::{NewMessage, PublishError, measure, outbox, store};
use jiff::Timestamp;
use onceward_db::{Db, DbError, Scope, Tx};
use onceward_envelope::TenantId;
use onceward_message_log::BusError;
use onceward_topology::Schedule;
use serde_json::json;
use std::time::Duration;
pub use timetable::{DueTicks, SkippedTicks, Timetable};
use tokio_util::sync::CancellationToken;

/// The tenant under which the platform's own ticks are published.
pub const PLATFORM_TENANT: &str = "platform";
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a schedule cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The declaration is invalid.
    #[error("schedule \"{name}\": {problem}")]
    Invalid {
        /// The schedule's name.
        name: String,
        /// A description of the problem.
        problem: String,
    },
    /// The database returned an error.
    #[error(transparent)]
    Db(#[from] DbError),
    /// A tick could not be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl ScheduleError {
    fn db(&self) -> Option<&DbError> {
        match self {
            Self::Db(error) | Self::Publish(PublishError::Bus(BusError::Db(error))) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the database cannot be used at all, so that no other schedule can tick either.
    fn is_outage(&self) -> bool {
        self.db().is_some_and(DbError::is_unavailable)
    }

    /// Returns whether the next attempt may succeed, after a conflict with another transaction or a topology change.
    fn is_transient(&self) -> bool {
        self.db().is_some_and(DbError::is_transient)
    }
}

/// Publishes ticks until `stop`. Any number of instances may run it.
pub async fn run(db: Db, timetables: Vec<Timetable>, stop: CancellationToken) {
    let mut declared = false;
    while !stop.is_cancelled() {
        let ticked = async {
            if !declared {
                let now = database_time(&db).await?;
                declare(&db, &timetables, now).await?;
                declared = true;
            }
            tick(&db, &timetables).await
        };
        if let Err(error) = ticked.await {
            tracing::warn!(%error, "checking schedules failed; retrying");
        }
        tokio::select! { () = tokio::time::sleep(CHECK_INTERVAL) => {}, () = stop.cancelled() => {} }
    }
}

async fn database_time(db: &Db) -> Result<Timestamp, ScheduleError> {
    let rows = db.connection().await?.query(store::DATABASE_TIME, &[]).await?;
    Ok(rows[0].get(0))
}

/// Stores the timetables; a new or changed one ticks for the first time after `from`. An existing one that is
/// unchanged keeps its next tick.
pub async fn declare(db: &Db, timetables: &[Timetable], from: Timestamp) -> Result<(), ScheduleError> {
    let connection = db.connection().await?;
    for timetable in timetables {
        let next = timetable.next_after(from)?;
        let definition = json!(timetable.schedule);
        connection.query(store::DECLARE_SCHEDULE, &[&timetable.schedule.name, &definition, &next]).await?;
    }
    Ok(())
}

/// Publishes the ticks that are due by the database's clock, once across all instances. Returns their number. A
/// schedule that fails is recorded in the database and retried at the next call; the others continue. Only an outage
/// of the database ends the call early.
pub async fn tick(db: &Db, timetables: &[Timetable]) -> Result<usize, ScheduleError> {
    let names: Vec<&str> = timetables.iter().map(Timetable::name).collect();
    let rows = db.connection().await?.query(store::DUE_NAMES, &[&names]).await?;
    let due: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    let mut published = 0;
    for timetable in timetables.iter().filter(|timetable| due.contains(&timetable.name())) {
        match tick_with_retry(db, timetable).await {
            Ok(ticks) => published += ticks,
            Err(error) if error.is_outage() => return Err(error),
            Err(error) => record_failure(db, timetable.name(), &error).await?,
        }
    }
    Ok(published)
}

/// Retries once after a conflict with another transaction, which does not count as a failure of the schedule.
async fn tick_with_retry(db: &Db, timetable: &Timetable) -> Result<usize, ScheduleError> {
    match tick_one(db, timetable).await {
        Err(error) if error.is_transient() && !error.is_outage() => {
            tracing::debug!(schedule = timetable.name(), %error, "publishing a tick conflicted with another transaction; retrying once");
            tick_one(db, timetable).await
        }
        ticked => ticked,
    }
}

/// Publishes the ticks of one schedule and advances it, in one transaction. Returns the number of ticks.
async fn tick_one(db: &Db, timetable: &Timetable) -> Result<usize, ScheduleError> {
    let name = timetable.name();
    let mut tx = db.begin(Scope::platform("scheduler")).await?;
    let rows = tx.query(store::DUE_SCHEDULES, &[&vec![name]]).await?;
    // Another instance has locked the row or has already advanced it.
    let Some(row) = rows.first() else {
        return Ok(0);
    };
    let DueTicks { publish: ticks, next, skipped } = timetable.due(row.get(1), row.get(2))?;
    for &tick in &ticks {
        publish(&mut tx, &timetable.schedule, tick).await?;
    }
    tx.query(store::TICKED, &[&name, &ticks.last(), &next]).await?;
    tx.commit().await?;
    if skipped.count > 0 {
        tracing::warn!(schedule = name, %skipped, "missed ticks were skipped according to the schedule's policy");
        measure::ticks_skipped(name, skipped.count);
    }
    ticks.iter().for_each(|_| measure::ticked(name));
    Ok(ticks.len())
}

/// Records the failure for `doctor` and readiness. It is logged less and less often: at failures 1, 2, 4, 8 and so on.
async fn record_failure(db: &Db, name: &str, error: &ScheduleError) -> Result<(), ScheduleError> {
    measure::schedule_failed(name);
    let text = error.to_string().replace('\0', "\u{fffd}");
    let rows = db.connection().await?.query(store::SCHEDULE_FAILED, &[&name, &text]).await?;
    let failures: i32 = rows[0].get::<_, Option<_>>(0).unwrap_or(1);
    if failures.unsigned_abs().is_power_of_two() {
        tracing::error!(schedule = name, failures, %error, "publishing a schedule's ticks failed; retrying, other schedules continue");
    }
    Ok(())
}

/// Fails with a description of those schedules in `names` that are failing, for readiness.
pub async fn failing(db: &Db, names: &[String]) -> Result<(), String> {
    let failing = async { db.connection().await?.query(store::FAILING_SCHEDULES, &[&names]).await };
    let rows = failing.await.map_err(|error: DbError| error.to_string())?;
    let failing: Vec<String> = rows
        .iter()
        .map(|row| format!("{} since {}: {}", row.get::<_, &str>(0), row.get::<_, Timestamp>(1), row.get::<_, &str>(2)))
        .collect();
    if failing.is_empty() { Ok(()) } else { Err(format!("schedules cannot tick: {}", failing.join("; "))) }
}

async fn publish(tx: &mut Tx, schedule: &Schedule, tick: Timestamp) -> Result<(), ScheduleError> {
    let tenants = match timetable::is_for_platform(schedule) {
        true => vec![PLATFORM_TENANT.to_owned()],
        false => tx.query(store::ACTIVE_TENANTS, &[]).await?.iter().map(|row| row.get(0)).collect(),
    };
    for tenant in tenants {
        let Ok(tenant) = TenantId::new(&tenant) else {
            continue;
        };
        let topic = schedule.topic.replace("{tenant}", tenant.as_str());
        let key = match &schedule.once_per {
            Some(key) => key.replace("{tenant}", tenant.as_str()).replace("{tick}", &tick.to_string()),
            None => format!("schedule:{}:{tick}", schedule.name),
        };
        tx.enter(Scope { tenant: Some(tenant), ..Scope::platform("scheduler") });
        let message = NewMessage::new(&schedule.event_type, topic, timetable::payload(schedule, tick)).once_per(key);
        outbox::send(tx, message).await?;
    }
    tx.enter(Scope::platform("scheduler"));
    Ok(())
}
