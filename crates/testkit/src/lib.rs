//! What tests need: a database of their own, a running platform inside the test or as processes that may be killed,
//! tokens, and patience with a limit.
//!
//! Tests run on real PostgreSQL: the server in `ONCEWARD_TEST_DATABASE_URL` (`cargo xtask test` sets it),
//! or else a private one that lives as long as the test process. So it is with the brokers.

mod brokers;
mod bus;
mod database;
mod fleet;
mod leftovers;
mod platform;
mod private_broker;
mod private_database;
mod program;
mod proxy;
mod scratch;
mod token;
mod variable;
mod wait;

pub use brokers::{kafka_url, left_out, private_kafka, private_rabbitmq, private_redis, rabbitmq_url, redis_url};
pub use bus::Bus;
pub use database::TestDb;
pub use fleet::{Fleet, free_port};
pub use leftovers::leftovers;
pub use platform::TestPlatform;
pub use private_broker::PrivateBroker;
pub use private_database::PrivateDatabase;
pub use program::{Executable, Program, wait_until_ready};
pub use proxy::Proxy;
pub use scratch::Scratch;
pub use token::{SECRET, token};
pub use variable::variable;
pub use wait::{PATIENCE, eventually, eventually_within};

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("blocking work ends well")
}
