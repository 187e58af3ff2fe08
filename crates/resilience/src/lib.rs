//! Keeping trouble where it is. No I/O and no clock of its own: callers say what time it is.

mod breaker;

pub use breaker::{Breaker, BreakerSettings, Pass};
