//! The options that consumers of both modes have.

use onceward_resilience::RetryBudget;
use onceward_topology::RetryPolicy;
use std::time::Duration;

/// How a consumer runs.
#[derive(Clone)]
pub(crate) struct ConsumerOptions {
    pub name: String,
    pub queue: String,
    pub concurrency: usize,
    pub prefetch: usize,
    pub precedence: u8,
    pub retry: RetryPolicy,
    pub budget: RetryBudget,
    pub ordered: bool,
    /// Whether a dead letter holds its key.
    pub holds_keys: bool,
    pub timeout: Duration,
    /// How long a lease lasts without a heartbeat; only leased consumers have leases.
    pub lease: Duration,
    pub unknown_for: Option<Duration>,
}

impl ConsumerOptions {
    pub(crate) fn new(name: &str, queue: &str, concurrency: usize, prefetch: usize) -> Self {
        Self {
            name: name.to_owned(),
            queue: queue.to_owned(),
            concurrency,
            prefetch,
            precedence: 0,
            retry: RetryPolicy::default(),
            budget: RetryBudget::default(),
            ordered: true,
            holds_keys: false,
            timeout: Duration::from_secs(30),
            lease: Duration::from_secs(30),
            unknown_for: None,
        }
    }
}

/// Adds the setters of the options that both modes have to a builder with a field `options`.
macro_rules! shared_options {
    ($builder:ty) => {
        impl $builder {
            /// Sets how many turns (transactional) or messages (leased) are handled at the same time.
            pub fn concurrency(mut self, concurrency: usize) -> Self {
                self.options.concurrency = concurrency.max(1);
                self
            }

            /// Sets how many messages are fetched at a time: the size of a turn, or of a fetch of leases.
            pub fn prefetch(mut self, prefetch: usize) -> Self {
                self.options.prefetch = prefetch.max(1);
                self
            }

            /// Sets its rank among the consumers of a process if the slots (`workers.slots`) do not suffice for all:
            /// higher ranks go first, and lower ones wait as long as those have work. The default is 0.
            pub fn precedence(mut self, precedence: u8) -> Self {
                self.options.precedence = precedence;
                self
            }

            /// Sets when and how often a failed message is retried.
            pub fn retry(mut self, retry: onceward_topology::RetryPolicy) -> Self {
                self.options.retry = retry;
                self
            }

            /// Sets how many retries may run besides first attempts before they are slowed down.
            pub fn budget(mut self, budget: onceward_resilience::RetryBudget) -> Self {
                self.options.budget = budget;
                self
            }

            /// Disables the order of keys: a waiting message blocks no other.
            pub fn unordered(mut self) -> Self {
                self.options.ordered = false;
                self
            }

            /// Makes each dead letter hold its ordering key: later messages of the key wait until an operator requeues the
            /// letter, which is then handled before them, or releases it (`onceward dlq release`). For keys whose messages
            /// make no sense without the one before. Messages without a key, and unordered consumers, hold nothing.
            pub fn dead_letters_hold_their_key(mut self) -> Self {
                self.options.holds_keys = true;
                self
            }

            /// Sets how long the handling of one message or one batch may take.
            pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
                self.options.timeout = timeout;
                self
            }

            /// Sets how long a message of a type or version that no worker knows waits before it becomes a dead letter.
            /// If unset, the limit of the process applies (`workers.unknown_hours`); zero means no limit.
            pub fn unknown_for(mut self, most: std::time::Duration) -> Self {
                self.options.unknown_for = Some(most);
                self
            }
        }
    };
}

pub(super) use shared_options;
