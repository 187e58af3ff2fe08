//! Quotas: places in buckets that are reserved, filled or given back, and never given out twice.
//!
//! ```text
//!           page submitted                  completed
//!   free ───────────────────► reserved ───────────────────► filled
//!     ▲   the gate: filled < target and        │  no gate: the place is theirs
//!     │   reserved + filled < target + overfill│
//!     └──── ended, silent, other answers ◄─────┘
//! ```
//!
//! `moves` decides which places a session wants, without I/O. `surveys.steps` in `migrations/0003_steps.sql` is the gate: to each
//! session all wanted places or none, under the locks of the sessions' rows and then of the buckets in the order of their ids.
//! A session that was silent too long gave its places back; when it goes on, it passes the gate again.
//!
//! A bucket is closed once `filled` reaches its target: nobody new is let in, and who holds a place may still fill it. So
//! `max_overfill` bounds how many places beyond the target are out at the same time. A target may be lowered below what is
//! taken: that closes the bucket, and those who hold places keep them.
//!
//! Invariant: `reserved + filled` never grows beyond `target + max_overfill`. The gate sees to it, and the table's constraint
//! `quota_never_overfills` would refuse what the gate let through.

mod moves;
pub(crate) mod store;
mod tell;

pub use moves::{Bucket, Moves};
pub(crate) use store::Moved;
pub(crate) use tell::tell;
