//! Fault isolation: a circuit breaker. No I/O and no clock; callers pass the current time.

mod breaker;

pub use breaker::{Breaker, BreakerDecision, BreakerSettings};
