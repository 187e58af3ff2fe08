//! Maps a handler's result to the settlement of its message.

use super::options::ConsumerOptions;
use crate::Failure;
use onceward_broker::{DeadReason, Delivery, Settlement};
use onceward_resilience::BudgetState;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// A consumer's retries, limited by its budget.
pub(crate) struct Retries {
    budget: Mutex<BudgetState>,
    started: Instant,
}

impl Retries {
    pub(crate) fn new(options: &ConsumerOptions) -> Self {
        Self { budget: Mutex::new(BudgetState::new(options.budget)), started: Instant::now() }
    }

    /// Records first attempts, each of which earns a fraction of a retry.
    pub(crate) fn record_first_attempts(&self, count: usize) {
        let now_ms = self.now_ms();
        let mut budget = self.budget.lock();
        (0..count).for_each(|_| budget.deposit(now_ms));
    }

    /// Returns the settlement of a message that failed.
    pub(crate) fn settle(&self, options: &ConsumerOptions, delivery: &Delivery, failure: Failure) -> Settlement {
        match failure {
            Failure::Permanent { reason } => Settlement::Dead { reason: DeadReason::Rejected, error: reason },
            Failure::Snooze { after, reason } => Settlement::Wait { after, reason },
            Failure::Transient { error } => self.retry(options, delivery, Duration::ZERO, error),
            Failure::RetryAfter { after, error } => self.retry(options, delivery, after, error),
        }
    }

    fn retry(&self, options: &ConsumerOptions, delivery: &Delivery, least: Duration, error: String) -> Settlement {
        let policy = &options.retry;
        match policy.delay_ms(delivery.attempt, rand::random()) {
            None => Settlement::Dead { reason: DeadReason::AttemptsExhausted, error },
            Some(delay_ms) => {
                // Beyond the budget a retry is not refused but delayed by the policy's maximum.
                let within = self.budget.lock().withdraw(self.now_ms());
                let delay_ms = if within { delay_ms } else { delay_ms.max(policy.cap_ms) };
                Settlement::Retry { after: Duration::from_millis(delay_ms).max(least), error }
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
