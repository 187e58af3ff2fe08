//! Schedules as data. The scheduler parses the cron expression.

use serde::{Deserialize, Serialize};

/// Publishes an event at each tick of a cron expression, once across all instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Unique among all schedules; it is part of each tick's idempotency key.
    pub name: String,
    /// Five fields (minute first), or six with seconds in front.
    pub cron: String,
    /// IANA name of the time zone in which the expression is evaluated.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// What happens to ticks that were due while no instance ran.
    #[serde(default)]
    pub missed: MissedTicks,
    /// Whether a tick is one message, or one per tenant.
    #[serde(default)]
    pub scope: ScheduleScope,
    /// Where the tick is published: `<exchange>:<routing key>`.
    pub topic: String,
    /// The type of the published event, such as `lending.accrual_due.v1`.
    pub event_type: String,
    /// A template for the idempotency key of a tick, with `{tenant}` and `{tick}`, instead of the default key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once_per: Option<String>,
}

/// What happens to ticks that were due while no instance ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedTicks {
    /// They are skipped.
    Skip,
    /// Only the latest one is published.
    #[default]
    FireOnce,
    /// They are published, oldest first.
    FireAll {
        /// The maximum number; older ticks are skipped.
        max: u32,
    },
}

/// The recipients of a tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleScope {
    /// One message, for the platform's own tenant.
    #[default]
    Platform,
    /// One message per active tenant.
    EachTenant,
}

impl Schedule {
    /// Creates a schedule in UTC, for the platform, that publishes one missed tick after an outage.
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

    /// Evaluates the expression in this IANA time zone.
    pub fn time_zone(mut self, name: impl Into<String>) -> Self {
        self.time_zone = name.into();
        self
    }

    /// Sets what happens to missed ticks.
    pub fn missed(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// Sets a template for the idempotency key of ticks. It must contain `{tick}` and may contain `{tenant}`.
    pub fn once_per(mut self, key: impl Into<String>) -> Self {
        self.once_per = Some(key.into());
        self
    }

    /// Publishes one message per active tenant.
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
    fn omitted_members_have_defaults() {
        let json = r#"{"name":"n","cron":"* * * * *","topic":"e:k","event_type":"t.v1"}"#;
        let schedule: Schedule = serde_json::from_str(json).unwrap();
        assert_eq!(schedule, Schedule::new("n", "* * * * *", "e:k", "t.v1"));
    }
}
