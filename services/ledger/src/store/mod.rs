//! All SQL of the ledger that is not in its migrations, beside the functions that run it. Row-level
//! security adds the tenant to every condition.

mod check;
mod post;
mod read;
mod reverse;

pub use check::{
    BalanceDifference, LedgerCheck, MAX_FINDINGS, TrialBalanceLine, UnbalancedEvent, check, differences, tenants,
    trial_balance, unbalanced,
};
pub use post::{MAX_EVENTS, PostedEvent, PostingOutcome, post, post_all};
pub use read::{MAX_PAGE, balances, balances_as_of, balances_locked, balances_of_all, event, history};
pub use reverse::{REVERSAL_SCHEMA, reverse};
