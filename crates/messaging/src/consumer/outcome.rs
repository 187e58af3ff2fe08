//! From what a handler said to what becomes of its message.

use super::Consumer;
use crate::Failure;
use onceward_topology::BudgetState;
use onceward_transport::{DeadReason, Delivery, Settlement};
use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

/// A consumer's retries, kept within its budget.
pub(crate) struct Retries {
    budget: Mutex<BudgetState>,
    started: Instant,
}

impl Retries {
    pub(crate) fn new(consumer: &Consumer) -> Self {
        Self { budget: Mutex::new(BudgetState::new(consumer.budget)), started: Instant::now() }
    }

    /// Notes a first attempt, which earns a part of a retry.
    pub(crate) fn first_attempt(&self) {
        self.budget.lock().expect("no panic while held").deposit(self.now_ms());
    }

    /// What becomes of a message that failed.
    pub(crate) fn settle(&self, consumer: &Consumer, delivery: &Delivery, failure: Failure) -> Settlement {
        match failure {
            Failure::Permanent { reason } => Settlement::Dead { reason: DeadReason::Rejected, error: reason },
            Failure::Snooze { after, reason } => Settlement::Wait { after, reason },
            Failure::Transient { error } => self.again(consumer, delivery, Duration::ZERO, error),
            Failure::RetryAfter { after, error } => self.again(consumer, delivery, after, error),
        }
    }

    fn again(&self, consumer: &Consumer, delivery: &Delivery, least: Duration, error: String) -> Settlement {
        let policy = &consumer.retry;
        match policy.delay_ms(delivery.attempt, rand::random()) {
            None => Settlement::Dead { reason: DeadReason::AttemptsExhausted, error },
            Some(delay_ms) => {
                // Beyond the budget a retry is not refused but slowed down as far as the policy goes.
                let within = self.budget.lock().expect("no panic while held").withdraw(self.now_ms());
                let delay_ms = if within { delay_ms } else { delay_ms.max(policy.cap_ms) };
                Settlement::Retry { after: Duration::from_millis(delay_ms).max(least), error }
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
