//! Retries of failed messages.

mod budget;
mod policy;

pub use budget::{BudgetState, RetryBudget};
pub use policy::{Jitter, RetryPolicy};
