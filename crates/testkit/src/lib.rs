//! What tests need: a database of their own, a running platform, tokens, and patience with a limit.
//!
//! Tests run on real PostgreSQL: the server in `ONCEWARD_TEST_DATABASE_URL` (`cargo xtask test` sets it),
//! or else a private one that lives as long as the test process. So it is with the brokers.

mod brokers;
mod database;
mod platform;
mod proxy;
mod wait;

pub use brokers::{kafka_url, left_out, private_kafka, private_rabbitmq, private_redis, rabbitmq_url, redis_url};
pub use database::TestDb;
pub use platform::TestPlatform;
pub use proxy::Proxy;
pub use wait::{PATIENCE, eventually, eventually_within};
