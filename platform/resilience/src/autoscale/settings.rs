//! The settings of a worker pool, and the figures that its size is decided by.

use serde::{Deserialize, Serialize};

/// The bounds and thresholds of a worker pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    /// The name of the pool.
    pub name: String,
    /// The queues that its workers serve.
    pub queues: Vec<String>,
    /// The smallest number of workers in all processes together.
    pub min: usize,
    /// The largest number of workers in all processes together.
    pub max: usize,
    /// The pool's part of what all pools share, in relation to the weights of the others.
    pub weight: u32,
    /// How many workers a threshold adds or removes at once.
    pub step: usize,
    /// The pool grows if at least this many messages wait.
    pub scale_up_at: u64,
    /// The pool may shrink if at most this many messages wait.
    pub scale_down_at: u64,
    /// How often the size is decided.
    pub check_every_ms: u64,
    /// The least time between two changes of the size.
    pub cooldown_ms: u64,
    /// How long the figures must have been low before the pool shrinks.
    pub stabilize_ms: u64,
    /// The age that the oldest message should not exceed, which is also the time in which a backlog should be done.
    /// With it, the pool grows by the work that waits instead of one step at a time.
    pub target_age_ms: Option<u64>,
    /// The destinations that its workers call: the pool does not grow while one of them cannot be called.
    #[serde(default)]
    pub destinations: Vec<String>,
}

impl PoolSettings {
    /// Returns the settings of a pool of 1 to 10 workers that grows at 50 waiting messages and shrinks at 10, checked
    /// every 10 seconds and changed every 30 at most.
    pub fn new(name: impl Into<String>, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            name: name.into(),
            queues: queues.into_iter().map(Into::into).collect(),
            min: 1,
            max: 10,
            weight: 1,
            step: 1,
            scale_up_at: 50,
            scale_down_at: 10,
            check_every_ms: 10_000,
            cooldown_ms: 30_000,
            stabilize_ms: 30_000,
            target_age_ms: None,
            destinations: Vec::new(),
        }
    }

    /// Returns everything that is wrong with these settings; an empty list if they can be used.
    pub fn validate(&self) -> Vec<String> {
        let Self { min, max, scale_up_at, scale_down_at, check_every_ms, cooldown_ms, stabilize_ms, .. } = self;
        let checks = [
            (!self.name.trim().is_empty(), "a pool needs a name".to_owned()),
            (!self.queues.is_empty(), "list at least one queue".to_owned()),
            (*min >= 1, "min must be at least 1: a pool without workers never learns that it needs one".to_owned()),
            (min <= max, format!("min ({min}) must not exceed max ({max})")),
            (self.weight >= 1, "weight must be at least 1".to_owned()),
            (self.step >= 1, "step must be at least 1".to_owned()),
            (
                scale_down_at < scale_up_at,
                format!("scale_down_at ({scale_down_at}) must be below scale_up_at ({scale_up_at})"),
            ),
            (*check_every_ms >= 1, "check_every_ms must be at least 1".to_owned()),
            (
                cooldown_ms >= check_every_ms,
                format!("cooldown_ms ({cooldown_ms}) must be at least check_every_ms ({check_every_ms})"),
            ),
            (
                stabilize_ms >= check_every_ms,
                format!("stabilize_ms ({stabilize_ms}) must be at least check_every_ms ({check_every_ms})"),
            ),
            (self.target_age_ms != Some(0), "target_age_ms must be at least 1, or absent".to_owned()),
        ];
        let mistakes = checks.into_iter().filter(|(is_right, _)| !is_right);
        mistakes.map(|(_, mistake)| format!("pool {:?}: {mistake}", self.name)).collect()
    }
}

/// What is known about a pool's queues and destinations. `None` means that there is no figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolSignals<'a> {
    /// The number of messages that could be handled now and have not been taken.
    pub waiting: Option<u64>,
    /// The number of messages being handled.
    pub in_flight: Option<u64>,
    /// The age of the oldest message that waits.
    pub oldest_age_ms: Option<u64>,
    /// New messages per second.
    pub arrivals_per_s: Option<f64>,
    /// The usual time for which a worker is busy with a message: the median, or else the mean.
    pub mean_ms: Option<f64>,
    /// The number of calls that the destinations of these queues allow at the same time.
    pub permits: Option<usize>,
    /// Why more workers could not do more now, such as an open breaker.
    pub blocked: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_settings_are_right() {
        assert_eq!(PoolSettings::new("mail", ["send-email"]).validate(), [""; 0]);
    }

    #[test]
    fn every_mistake_is_reported() {
        let wrong = PoolSettings {
            min: 0,
            max: 0,
            weight: 0,
            step: 0,
            scale_up_at: 10,
            scale_down_at: 10,
            check_every_ms: 20_000,
            cooldown_ms: 10_000,
            stabilize_ms: 10_000,
            target_age_ms: Some(0),
            ..PoolSettings::new(" ", [""; 0])
        };
        assert_eq!(wrong.validate().len(), 9);
        let inverted = PoolSettings { min: 3, max: 2, ..PoolSettings::new("mail", ["send-email"]) };
        assert_eq!(inverted.validate(), ["pool \"mail\": min (3) must not exceed max (2)"]);
    }
}
