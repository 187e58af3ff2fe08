//! When a schedule ticks: its cron expression in its time zone, and how missed ticks are handled.

use super::{PLATFORM_TENANT, ScheduleError};
use crate::outbox::routing_tenant;
use croner::{Cron, parser::CronParser};
use jiff::{SignedDuration, Timestamp, Zoned, tz::TimeZone};
use onceward_envelope::SchemaRegistry;
use onceward_topology::{MissedTicks, Schedule, ScheduleScope, Topic, Topology};
use serde_json::{Value, json};
use std::fmt;

/// The maximum delay of a tick that still counts as on time.
const ON_TIME_MAX: SignedDuration = SignedDuration::from_secs(60);
/// The maximum number of missed ticks that are made up, whatever a schedule declares.
const MADE_UP_AT_MOST: u32 = 10_000;
/// How many skipped ticks are counted individually; beyond that their number is projected.
const COUNTED_AT_MOST: u64 = 1_000;

/// A schedule with a parsed expression and time zone.
#[derive(Clone)]
pub struct Timetable {
    pub(super) schedule: Schedule,
    cron: Cron,
    zone: TimeZone,
}

/// The actions for a schedule that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTicks {
    /// The ticks to publish, oldest first.
    pub publish: Vec<Timestamp>,
    /// The first tick after now.
    pub next: Timestamp,
    /// Ticks that fell due and are not published.
    pub skipped: SkippedTicks,
}

/// The number of skipped ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedTicks {
    /// The number.
    pub count: u64,
    /// Whether the number is projected from the first ticks because there were too many to count.
    pub projected: bool,
}

impl fmt::Display for SkippedTicks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.projected {
            f.write_str("about ")?;
        }
        write!(f, "{}", self.count)
    }
}

impl Timetable {
    /// Parses the declaration. Fails if the expression or the time zone is invalid.
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

    /// Returns the problems that would prevent its ticks from being published, as far as they can be known in advance,
    /// each as a sentence.
    pub fn problems(&self, schemas: &SchemaRegistry, topology: &Topology) -> Vec<String> {
        let schedule = &self.schedule;
        let mut problems = Vec::new();
        let topic = schedule.topic.replace("{tenant}", PLATFORM_TENANT);
        match topic.parse::<Topic>() {
            Err(error) => problems.push(format!("its topic is invalid: {error}")),
            Ok(topic) => {
                if topology.find_exchange(&topic.exchange).is_none() {
                    problems.push(format!("the exchange {} is not declared", topic.exchange));
                }
                // The placeholder was replaced by the platform's name, so any other name was written explicitly.
                if routing_tenant(&topic.routing_key).is_some_and(|tenant| tenant != PLATFORM_TENANT) {
                    problems.push("its routing key names a tenant: write {tenant} instead".to_owned());
                }
            }
        }
        if !schemas.contains(&schedule.event_type) {
            problems.push(format!("there is no schema {}", schedule.event_type));
        } else if let Err(error) = schemas.validate(&schedule.event_type, &payload(schedule, Timestamp::UNIX_EPOCH)) {
            problems.push(format!("its payload (schedule, scheduledFor) does not fit its schema: {error}"));
        }
        problems.into_iter().map(|problem| format!("schedule {}: {problem}", schedule.name)).collect()
    }

    /// Returns the first tick after `time`.
    pub fn next_after(&self, time: Timestamp) -> Result<Timestamp, ScheduleError> {
        let next = self.cron.find_next_occurrence(&self.zoned(time), false);
        next.map(|next| next.timestamp()).map_err(|error| self.invalid(&error))
    }

    /// Returns the ticks to publish now that `first` is due. The cost depends on the ticks made up, not on those
    /// missed.
    pub fn due(&self, first: Timestamp, now: Timestamp) -> Result<DueTicks, ScheduleError> {
        let next = self.next_after(now)?;
        let most = match self.schedule.missed {
            MissedTicks::Skip | MissedTicks::FireOnce => 1,
            MissedTicks::FireAll { max } => max.min(MADE_UP_AT_MOST),
        };
        let mut publish = self.latest(first, now, most as usize)?;
        if self.schedule.missed == MissedTicks::Skip {
            publish.retain(|tick| now.duration_since(*tick) <= ON_TIME_MAX);
        }
        let published_from = publish.first().copied().unwrap_or(next);
        let skipped = self.count(first, published_from)?;
        Ok(DueTicks { publish, next, skipped })
    }

    /// Returns the latest `most` ticks from `first` to `now`, oldest first.
    fn latest(&self, first: Timestamp, now: Timestamp, most: usize) -> Result<Vec<Timestamp>, ScheduleError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        // Backwards to the first of the latest ticks, then forwards: these are the ticks that an instance without
        // downtime would have published, even across clock changes.
        let mut from = now;
        for step in 0..most {
            let before = self.cron.find_previous_occurrence(&self.zoned(from), step == 0);
            from = before.map_err(|error| self.invalid(&error))?.timestamp();
            if from <= first {
                break;
            }
        }
        let mut tick = if from <= first { first } else { from };
        let mut ticks = Vec::new();
        while tick <= now {
            ticks.push(tick);
            tick = self.next_after(tick)?;
        }
        Ok(ticks.split_off(ticks.len().saturating_sub(most)))
    }

    /// Counts the ticks from `first` up to but excluding `end`.
    fn count(&self, first: Timestamp, end: Timestamp) -> Result<SkippedTicks, ScheduleError> {
        let (mut tick, mut count) = (first, 0);
        while tick < end && count < COUNTED_AT_MOST {
            count += 1;
            tick = self.next_after(tick)?;
        }
        if tick >= end {
            return Ok(SkippedTicks { count, projected: false });
        }
        let (counted, all) = (tick.duration_since(first), end.duration_since(first));
        let projected = count as f64 * all.as_secs_f64() / counted.as_secs_f64();
        Ok(SkippedTicks { count: projected.round() as u64, projected: true })
    }

    fn zoned(&self, time: Timestamp) -> Zoned {
        time.to_zoned(self.zone.clone())
    }

    fn invalid(&self, error: &dyn fmt::Display) -> ScheduleError {
        ScheduleError::Invalid { name: self.schedule.name.clone(), problem: error.to_string() }
    }
}

/// Returns a tick's payload.
pub(super) fn payload(schedule: &Schedule, tick: Timestamp) -> Value {
    json!({"schedule": schedule.name, "scheduledFor": tick})
}

/// Returns whether a tick is one message, published under the platform's own name.
pub(super) fn is_for_platform(schedule: &Schedule) -> bool {
    schedule.scope == ScheduleScope::Platform
}
