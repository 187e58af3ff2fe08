//! A destination, declared as data.

use onceward_resilience::{BreakerSettings, BulkheadSettings, RetryBudget};
use std::time::Duration;

/// Another system, and the limits of the calls to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    pub(crate) name: String,
    pub(crate) breaker: BreakerSettings,
    pub(crate) bulkhead: BulkheadSettings,
    pub(crate) budget: RetryBudget,
    pub(crate) timeout: Duration,
    pub(crate) credentials_are_systems: bool,
}

impl Destination {
    /// Declares a destination with the default limits and a timeout of 30 seconds.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            breaker: BreakerSettings::default(),
            bulkhead: BulkheadSettings::default(),
            budget: RetryBudget { ratio: 0.2, min_per_second: 1.0, window_ms: 10_000 },
            timeout: Duration::from_secs(30),
            credentials_are_systems: false,
        }
    }

    /// Sets when its breakers open and close.
    pub fn breaker(mut self, breaker: BreakerSettings) -> Self {
        self.breaker = breaker;
        self
    }

    /// Sets how many calls of one process are in flight: a fixed number, or one that follows their results.
    pub fn bulkhead(mut self, bulkhead: BulkheadSettings) -> Self {
        self.bulkhead = bulkhead;
        self
    }

    /// Sets how many of the calls may be retries, over all processes: its minimum is divided among them.
    pub fn budget(mut self, budget: RetryBudget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets how long a call may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Declares that every credential leads to a system of its own, such as the endpoint of a customer. Then each has its own
    /// retry budget, so that the retries of one do not delay those of another.
    pub fn credentials_are_systems(mut self) -> Self {
        self.credentials_are_systems = true;
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns everything that is wrong with this declaration; an empty list if it can be used.
    pub fn validate(&self) -> Vec<String> {
        let mut mistakes = self.breaker.validate();
        if self.name.is_empty() || self.name.len() > 255 {
            mistakes.push("a name has from 1 to 255 bytes".to_owned());
        }
        mistakes.extend(self.bulkhead.validate());
        if self.timeout.is_zero() {
            mistakes.push("the timeout must be longer than zero".to_owned());
        }
        if self.timeout.as_millis() >= u128::from(self.breaker.probe_limit_ms) {
            mistakes.push(
                "probe_limit_ms must be longer than the timeout, or a probe is replaced while it runs".to_owned(),
            );
        }
        mistakes.into_iter().map(|mistake| format!("destination {:?}: {mistake}", self.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_resilience::AdaptiveLimit;

    #[test]
    fn every_mistake_of_a_declaration_is_reported() {
        assert_eq!(Destination::new("sms").validate(), [""; 0]);
        assert_eq!(Destination::new("").timeout(Duration::ZERO).validate().len(), 2);
        assert_eq!(Destination::new("sms").timeout(Duration::from_secs(60)).validate().len(), 1);
        let adaptive = Some(AdaptiveLimit { min: 20, ..AdaptiveLimit::default() });
        let bulkhead = BulkheadSettings { limit: 10, adaptive, ..BulkheadSettings::default() };
        assert_eq!(Destination::new("sms").bulkhead(bulkhead).validate().len(), 1);
    }
}
