//! The record of failed tasks: how often each was restarted, and its last failure.

use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

/// The maximum length of error texts in characters.
const ERROR_CHARS: usize = 200;

/// A task that failed recently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingTask {
    /// The task's name.
    pub name: String,
    /// How often it was restarted since the process started.
    pub restarts: u64,
    /// The reason for its last failure.
    pub error: String,
    /// The time since its last failure.
    pub ago: Duration,
}

impl fmt::Display for FailingTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, restarts, error, ago } = self;
        write!(f, "{name} ({restarts} in all, the last {} s ago: {error})", ago.as_secs())
    }
}

struct LastFailure {
    restarts: u64,
    error: String,
    at: Instant,
}

/// Failures by task name; a process has a fixed set of tasks.
#[derive(Default)]
pub(crate) struct Failures(Mutex<BTreeMap<String, LastFailure>>);

impl Failures {
    pub(crate) fn record(&self, name: &str, error: &str) {
        let error: String = error.chars().take(ERROR_CHARS).collect();
        let mut tasks = self.0.lock();
        let restarts = tasks.get(name).map_or(0, |last| last.restarts) + 1;
        tasks.insert(name.to_owned(), LastFailure { restarts, error, at: Instant::now() });
    }

    pub(crate) fn within(&self, time: Duration) -> Vec<FailingTask> {
        let tasks = self.0.lock();
        let recent = tasks.iter().map(|(name, last)| (name, last, last.at.elapsed()));
        recent
            .filter(|(_, _, ago)| *ago <= time)
            .map(|(name, last, ago)| FailingTask {
                name: name.clone(),
                restarts: last.restarts,
                error: last.error.clone(),
                ago,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_counted_and_the_last_error_is_kept() {
        let failures = Failures::default();
        failures.record("a", "first");
        failures.record("a", &"x".repeat(1000));
        failures.record("b", "other");
        let recent = failures.within(Duration::from_secs(60));
        assert_eq!(
            recent.iter().map(|task| (task.name.as_str(), task.restarts)).collect::<Vec<_>>(),
            [("a", 2), ("b", 1)]
        );
        assert_eq!(recent[0].error.len(), ERROR_CHARS);
    }

    #[test]
    fn failures_of_longer_ago_are_not_reported() {
        let failures = Failures::default();
        failures.record("a", "first");
        assert!(failures.within(Duration::ZERO).is_empty());
    }
}
