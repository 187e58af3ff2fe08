//! Schedules: cron ticks that are published once across all instances.
//!
//! A schedule's next tick is a row. Whoever locks it publishes the tick and moves the row on, in
//! one transaction; the tick's idempotency key makes even a restored backup harmless.

use crate::{NewMessage, PublishError, measure, outbox, store};
use croner::{Cron, parser::CronParser};
use jiff::{SignedDuration, Timestamp, Zoned, tz::TimeZone};
use onceward_db::{Db, DbError, Scope, Tx};
use onceward_envelope::{Clock, TenantId};
use onceward_topology::{MissedTicks, Schedule, ScheduleScope};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// The tenant in whose name ticks of the platform itself are published.
pub const PLATFORM_TENANT: &str = "platform";
/// A tick this late still counts as on time.
const ON_TIME: SignedDuration = SignedDuration::from_secs(60);
/// How many missed ticks are looked at; older ones are gone.
const MISSED_AT_MOST: usize = 10_000;
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a schedule cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The declaration is wrong.
    #[error("schedule \"{name}\": {problem}")]
    Invalid {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The database.
    #[error(transparent)]
    Db(#[from] DbError),
    /// A tick could not be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

/// A schedule whose expression and time zone were understood.
#[derive(Clone)]
pub struct Timetable {
    schedule: Schedule,
    cron: Cron,
    zone: TimeZone,
}

impl Timetable {
    /// Reads the declaration.
    pub fn new(schedule: Schedule) -> Result<Self, ScheduleError> {
        let invalid = |problem: String| ScheduleError::Invalid { name: schedule.name.clone(), problem };
        let cron = CronParser::new().parse(&schedule.cron).map_err(|error| invalid(error.to_string()))?;
        if schedule.once_per.as_ref().is_some_and(|key| !key.contains("{tick}")) {
            return Err(invalid("its idempotency key must name {tick}, or only the first tick is published".into()));
        }
        let zone = TimeZone::get(&schedule.time_zone).map_err(|error| invalid(error.to_string()))?;
        let timetable = Self { cron, zone, schedule: schedule.clone() };
        timetable.next_after(Timestamp::now())?;
        Ok(timetable)
    }

    /// The schedule's name.
    pub fn name(&self) -> &str {
        &self.schedule.name
    }

    /// The first tick after `time`.
    pub fn next_after(&self, time: Timestamp) -> Result<Timestamp, ScheduleError> {
        let zoned: Zoned = time.to_zoned(self.zone.clone());
        self.cron
            .find_next_occurrence(&zoned, false)
            .map(|next| next.timestamp())
            .map_err(|error| ScheduleError::Invalid { name: self.schedule.name.clone(), problem: error.to_string() })
    }

    /// The ticks to publish now that `first` is due, and the one after them.
    pub fn due(&self, first: Timestamp, now: Timestamp) -> Result<(Vec<Timestamp>, Timestamp), ScheduleError> {
        let mut ticks = vec![first];
        let mut next = self.next_after(first)?;
        while next <= now && ticks.len() < MISSED_AT_MOST {
            ticks.push(next);
            next = self.next_after(next)?;
        }
        if next <= now {
            next = self.next_after(now)?;
        }
        let last = *ticks.last().expect("the first is in it");
        let publish = match self.schedule.missed {
            MissedTicks::Skip if now.duration_since(last) > ON_TIME => Vec::new(),
            MissedTicks::Skip | MissedTicks::FireOnce => vec![last],
            MissedTicks::FireAll { max } => ticks.split_off(ticks.len().saturating_sub(max as usize)),
        };
        Ok((publish, next))
    }
}

/// Publishes ticks until `stop`. Any number of instances may run it.
pub async fn run(db: Db, timetables: Vec<Timetable>, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let mut declared = false;
    while !stop.is_cancelled() && !timetables.is_empty() {
        let ticked = async {
            if !declared {
                declare(&db, &timetables, clock.now()).await?;
                declared = true;
            }
            tick(&db, &timetables, clock.now()).await
        };
        if let Err(error) = ticked.await {
            tracing::warn!(%error, "schedules could not be looked at; trying again");
        }
        tokio::select! { () = tokio::time::sleep(LOOK_EVERY) => {}, () = stop.cancelled() => {} }
    }
}

/// Writes the timetables down. One that is known and unchanged keeps its next tick.
pub async fn declare(db: &Db, timetables: &[Timetable], now: Timestamp) -> Result<(), ScheduleError> {
    let connection = db.connection().await?;
    for timetable in timetables {
        let next = timetable.next_after(now)?;
        let definition = json!(timetable.schedule);
        connection.query(store::DECLARE_SCHEDULE, &[&timetable.schedule.name, &definition, &next]).await?;
    }
    Ok(())
}

/// Publishes what is due, once across all instances. Gives the number of ticks.
pub async fn tick(db: &Db, timetables: &[Timetable], now: Timestamp) -> Result<usize, ScheduleError> {
    let names: Vec<&str> = timetables.iter().map(|timetable| timetable.schedule.name.as_str()).collect();
    let mut tx = db.begin(Scope::platform("scheduler")).await?;
    let mut published = 0;
    for row in tx.query(store::DUE_SCHEDULES, &[&names]).await? {
        let name: &str = row.get(0);
        let Some(timetable) = timetables.iter().find(|timetable| timetable.schedule.name == name) else {
            continue;
        };
        let (ticks, next) = timetable.due(row.get(1), now)?;
        for &tick in &ticks {
            publish(&mut tx, &timetable.schedule, tick).await?;
            measure::ticked(name);
        }
        tx.query(store::TICKED, &[&name, &ticks.last(), &next]).await?;
        published += ticks.len();
    }
    tx.commit().await?;
    Ok(published)
}

async fn publish(tx: &mut Tx, schedule: &Schedule, tick: Timestamp) -> Result<(), ScheduleError> {
    let tenants = match schedule.scope {
        ScheduleScope::Platform => vec![PLATFORM_TENANT.to_owned()],
        ScheduleScope::EachTenant => tx.query(store::ACTIVE_TENANTS, &[]).await?.iter().map(|row| row.get(0)).collect(),
    };
    for tenant in tenants {
        let Ok(tenant) = TenantId::new(&tenant) else {
            continue;
        };
        let topic = schedule.topic.replace("{tenant}", tenant.as_str());
        let payload = json!({"schedule": schedule.name, "scheduledFor": tick});
        let key = match &schedule.once_per {
            Some(key) => key.replace("{tenant}", tenant.as_str()).replace("{tick}", &tick.to_string()),
            None => format!("schedule:{}:{tick}", schedule.name),
        };
        tx.enter(Scope { tenant: Some(tenant), ..Scope::platform("scheduler") });
        let message = NewMessage::new(&schedule.event_type, topic, payload).once_per(key);
        outbox::send(tx, message).await?;
    }
    tx.enter(Scope::platform("scheduler"));
    Ok(())
}
