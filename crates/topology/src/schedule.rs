//! What is published by the clock, as data. Reading the cron expression is the scheduler's work.

use serde::{Deserialize, Serialize};

/// Publishes an event at each tick of a cron expression, once across all instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Unique among all schedules; it is part of each tick's idempotency key.
    pub name: String,
    /// Five fields (minute first), or six with seconds in front.
    pub cron: String,
    /// IANA name of the time zone the expression is read in.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// What happens to ticks that fell due while nothing ran.
    #[serde(default)]
    pub missed: MissedTicks,
    /// Whether one tick is one message, or one for each tenant.
    #[serde(default)]
    pub scope: ScheduleScope,
    /// Where the tick is published: `<exchange>:<routing key>`.
    pub topic: String,
    /// The event that is published, such as `lending.accrual_due.v1`.
    pub event_type: String,
    /// The idempotency key of a tick, if not the usual one, with `{tenant}` and `{tick}` in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once_per: Option<String>,
}

/// What happens to ticks that fell due while nothing ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedTicks {
    /// They are gone.
    Skip,
    /// However many there were, one is published, for the latest.
    #[default]
    FireOnce,
    /// Each is published, oldest first.
    FireAll {
        /// At most so many, the latest ones.
        max: u32,
    },
}

/// Whom a tick is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleScope {
    /// One message, in the platform's own name.
    #[default]
    Platform,
    /// One message for each active tenant.
    EachTenant,
}

impl Schedule {
    /// A schedule in UTC, for the platform, that catches up once after an outage.
    pub fn new(
        name: impl Into<String>,
        cron: impl Into<String>,
        topic: impl Into<String>,
        event_type: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            cron: cron.into(),
            time_zone: utc(),
            missed: MissedTicks::default(),
            scope: ScheduleScope::default(),
            topic: topic.into(),
            event_type: event_type.into(),
            once_per: None,
        }
    }

    /// Reads the expression in this IANA time zone.
    pub fn time_zone(mut self, name: impl Into<String>) -> Self {
        self.time_zone = name.into();
        self
    }

    /// Says what happens to missed ticks.
    pub fn missed(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// Publishes ticks under another idempotency key than the usual one. It must name `{tick}`; `{tenant}` is filled in too.
    pub fn once_per(mut self, key: impl Into<String>) -> Self {
        self.once_per = Some(key.into());
        self
    }

    /// Publishes one message for each tenant.
    pub fn each_tenant(mut self) -> Self {
        self.scope = ScheduleScope::EachTenant;
        self
    }
}

fn utc() -> String {
    "UTC".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_reads_back_from_its_json() {
        let nightly = Schedule::new("nightly", "0 2 * * *", "ops:nightly", "ops.nightly.v1")
            .time_zone("Europe/Berlin")
            .missed(MissedTicks::FireAll { max: 3 })
            .once_per("nightly:{tenant}:{tick}")
            .each_tenant();
        let json = serde_json::to_string(&nightly).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), nightly);
        assert!(json.contains(r#""missed":{"fire_all":{"max":3}},"scope":"each_tenant""#));
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let json = r#"{"name":"n","cron":"* * * * *","topic":"e:k","event_type":"t.v1"}"#;
        let schedule: Schedule = serde_json::from_str(json).unwrap();
        assert_eq!(schedule, Schedule::new("n", "* * * * *", "e:k", "t.v1"));
    }
}
