//! Retries of failed messages.

mod policy;

pub use policy::{Jitter, RetryPolicy};
