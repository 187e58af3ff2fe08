//! Fault isolation: a circuit breaker for one process and one for all, retry budgets, and the rules by which worker pools grow and
//! shrink. No I/O and no clock; callers pass the current time.
//!
//! Reading order: `breaker` protects a destination from one process, `cluster` lets all processes agree on it,
//! `budget` limits retries, `bulkhead` and `limit` bound the calls in flight, [`autoscale`] decides the size of worker pools.

pub mod autoscale;
mod breaker;
mod budget;
mod bulkhead;
mod cluster;
mod limit;

pub use breaker::{Breaker, BreakerChange, BreakerPhase, BreakerSettings, Outcome, Rejection, Ticket, TicketKind};
pub use budget::{BudgetState, RetryBudget};
pub use bulkhead::{Bulkhead, BulkheadFull, BulkheadPermit, BulkheadSettings};
pub use cluster::{ProbeClaim, SharedBreaker, SharedPermission, SharedPhase, quorum};
pub use limit::{AdaptiveLimit, CallSample, ConcurrencyLimit, LimitRule};
