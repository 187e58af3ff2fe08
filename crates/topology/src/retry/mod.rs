//! When a failed message is tried again.

mod budget;
mod policy;

pub use budget::{BudgetState, RetryBudget};
pub use policy::{Jitter, RetryPolicy};
