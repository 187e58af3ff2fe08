//! Private RabbitMQ, Redis and Kafka servers on this machine, for tests, benches and `cargo xtask services`.
//!
//! Only std is used, so that it compiles in a moment, and every call blocks: from async code, wrap it in `spawn_blocking`.
//!
//! ```no_run
//! use onceward_local_brokers::{Broker, RabbitMq, RabbitMqPrograms};
//!
//! # fn main() -> Result<(), onceward_local_brokers::Error> {
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
//! <folder>/password   made once, since the data remembers it
//! <folder>/log        what the server says
//! <folder>/data/      what survives
//! ```
//!
//! Invariants: servers listen on the loopback interface only, on ports that nobody uses; a signal goes only to a process
//! that was started for the same folder; what a server needs running beside it lives in its process group and ends with
//! it; when the owner ends in whatever way, the server ends, unless it was detached.
//!
//! Reading order: `server.rs`, `processes.rs`, then one file a broker.

mod broker;
mod detached;
mod error;
mod files;
mod kafka;
mod ports;
mod probe;
mod process;
mod processes;
mod programs;
mod rabbitmq;
mod record;
mod redis;
mod server;

pub use broker::Broker;
pub use detached::{Detached, find_detached, stop_detached};
pub use error::Error;
pub use kafka::{Kafka, KafkaPrograms};
pub use rabbitmq::{RabbitMq, RabbitMqPrograms};
pub use redis::{Redis, RedisPrograms};
pub use server::Server;
