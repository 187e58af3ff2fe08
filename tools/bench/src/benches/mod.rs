//! The benches, one per file.

pub(crate) mod audit;
pub(crate) mod backlog;
pub(crate) mod enqueue;
pub(crate) mod latency;
pub(crate) mod mail;
pub(crate) mod payments;
pub(crate) mod pinned;
pub(crate) mod queue;
pub(crate) mod quota;
pub(crate) mod relay;
