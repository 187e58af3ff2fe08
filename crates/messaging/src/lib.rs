//! Publishing and consuming: state, effects and messages in one transaction.
//!
//! - [`outbox`]: the only way to publish; it takes a transaction.
//! - [`consumer`]: declares who handles what, and runs it: receive → check tenant → validate →
//!   handle → settle, with retries, order per key, dead letters.
//! - [`inbox`]: remembers what was handled, for buses that may deliver twice.
//! - [`relay`] and [`landing`]: the way over an external bus, there and back; [`collect`] brings home what got stuck.
//! - [`schedule`]: cron ticks that are published once across all instances.
//!
//! Delivery is at least once; effects are applied once.

pub mod collect;
pub mod consumer;
mod crew;
mod event;
mod failure;
pub mod inbox;
pub mod landing;
pub mod measure;
pub mod outbox;
mod portion;
pub mod relay;
pub mod schedule;
mod store;
mod ways;

pub use consumer::{AnyHandler, BatchHandler, Consumer, Handler, InBatch, LeasedHandler, Mode};
pub use event::{Event, Received};
pub use failure::Failure;
pub use outbox::{NewMessage, PublishError, Publisher};
