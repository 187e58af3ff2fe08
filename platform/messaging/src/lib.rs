//! Publishing and consuming: state, effects and messages in one transaction.
//!
//! - [`outbox`]: the only way to publish; it takes a transaction.
//! - [`consumer`]: declares the handlers of a queue and runs them: receive → check tenant → validate → handle →
//!   settle, with retries, order per key and dead letters.
//! - [`inbox`]: records what was handled, for buses that may deliver twice.
//! - [`relay`] and [`landing`]: the path to an external bus and back; [`collect`] moves the bus's own dead letters
//!   into the database.
//! - [`schedule`]: cron ticks that are published once across all instances.
//!
//! Delivery is at least once; effects are applied once.

mod backoff;
pub mod collect;
pub mod consumer;
mod event;
mod failure;
pub mod inbox;
pub mod landing;
pub mod measure;
pub mod outbox;
pub mod relay;
mod relay_load;
pub mod schedule;
pub mod spans;
mod store;

pub use consumer::{
    AnyHandler, BatchHandler, Consumer, ConsumerMode, Handler, InBatch, LeasedConsumer, LeasedHandler,
    TransactionalConsumer,
};
pub use event::{Event, Received};
pub use failure::Failure;
pub use outbox::{NewMessage, PublishError, Publisher};
