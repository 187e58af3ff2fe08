//! Private RabbitMQ, Redis and Kafka servers on this machine, for tests, benches and `cargo xtask services`.
//!
//! It uses only std, so that it compiles quickly. Every call blocks: in async code, wrap it in `spawn_blocking`.
//!
//! ```no_run
//! use onceward_local_brokers::{LocalBroker, RabbitMq, RabbitMqPrograms};
//!
//! # fn main() -> Result<(), onceward_local_brokers::LocalBrokerError> {
//! let mut server = RabbitMq::start(&RabbitMqPrograms::find()?, "some/folder".as_ref())?;
//! println!("{}", server.url());
//! server.kill()?;
//! server.restart()?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! <folder>/lock       held for as long as a Server lives: one owner at a time
//! <folder>/running    processes and URL of the server that runs here; 0600, because the URL carries the password
//! <folder>/password   created once, because the data depends on it
//! <folder>/log        the server's output
//! <folder>/data/      the data, which survives restarts
//! ```
//!
//! Invariants: servers listen on the loopback interface only, on unused ports; signals go only to processes that were
//! started for the same folder; helper processes of a server are in its process group and end with it; when the owner
//! ends for any reason, the server ends, unless it was detached.
//!
//! Reading order: `server.rs`, `process_group.rs`, then one file per broker.

mod broker;
mod detached;
mod error;
mod files;
mod kafka;
mod ports;
mod probe;
mod process;
mod process_group;
mod programs;
mod rabbitmq;
mod record;
mod redis;
mod server;

pub use broker::LocalBroker;
pub use detached::{DetachedServer, find_detached, stop_detached};
pub use error::LocalBrokerError;
pub use kafka::{Kafka, KafkaPrograms};
pub use rabbitmq::{RabbitMq, RabbitMqPrograms};
pub use redis::{Redis, RedisPrograms};
pub use server::Server;
