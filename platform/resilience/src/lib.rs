//! Fault isolation: a circuit breaker, and the rules by which worker pools grow and shrink. No I/O and no clock; callers
//! pass the current time.

pub mod autoscale;
mod breaker;

pub use breaker::{Breaker, BreakerDecision, BreakerSettings};
