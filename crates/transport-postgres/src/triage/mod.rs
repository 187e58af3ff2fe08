//! Triage: what people do with dead letters. Looking at them, putting them back, taking them out of the way, and the
//! history of all that.
//!
//! The rule of order: a letter that is put back takes its old place in the line of its key. What was published before it
//! and still waits stays in front of it, what was published after it comes behind it, by the numbers of the log. Two
//! things cannot be overtaken: what was handled meanwhile, and what a worker holds under a lease.
//!
//! Everything here goes by the transaction's tenant: from one without, all letters are seen; see `0005_triage.sql`.

mod act;
pub mod collect;
mod history;
mod letters;
mod requeue;

pub use act::{Fate, Operator, Refusal, quarantine};
pub use history::{Act, history};
pub use letters::{Filter, Letter, Status, Summary, in_order, letters, list};
pub use requeue::{Requeue, plan, requeue};

/// Letters that are dealt with in one commit.
pub const CHUNK: usize = 500;
