//! Triage: what operators do with dead letters. They list them, requeue them, quarantine them, release the keys that they
//! hold, and read the history of these actions.
//!
//! The rule of order: a requeued letter takes its old place in the line of its key. Messages published before it that
//! still wait stay ahead of it, and messages published after it stay behind it, by the numbers of the log. It cannot be
//! placed ahead of two kinds of messages: those handled meanwhile, and those a worker holds under a lease.
//!
//! Every action is an entry of the audit trail, in the chain of the letter's tenant and in the commit of the action.
//!
//! Visibility depends on the transaction's tenant: a transaction without one sees all letters; see `0016_dead_letters.sql`.

pub(crate) mod audit;
mod cancel;
pub mod collect;
mod dead_letters;
mod history;
mod outcome;
mod quarantine;
mod release;
mod requeue;

pub use cancel::{CancelOutcome, CancelledMessage, cancel};
pub use dead_letters::{
    DeadLetterDetails, DeadLetterFilter, DeadLetterStatus, DeadLetterSummary, details, in_order, list,
};
pub use history::{TriageAction, history};
pub use onceward_audit::Operator;
pub use outcome::{TriageOutcome, TriageRefusal};
pub use quarantine::quarantine;
pub use release::{WaitingFollower, followers, release};
pub use requeue::{RequeueOptions, plan, requeue};

/// The number of letters processed in one commit.
pub const CHUNK: usize = 500;
