//! Support for tests: a private database, a running platform inside the test or as processes that may be killed,
//! tokens, and waiting with a time limit.
//!
//! Tests run on a real PostgreSQL: the server in `ONCEWARD_TEST_DATABASE_URL` (`cargo xtask test` sets it), or a
//! private one that lives as long as the test process. The same holds for the brokers.

mod brokers;
mod bus;
mod database;
mod database_proxy;
mod environment;
mod fleet;
mod http_response;
mod platform;
mod pooler;
mod private_broker;
mod private_database;
mod proxy;
mod scratch;
mod server_process;
mod small_disk;
mod smtp;
mod token;
mod wait;

pub use brokers::{
    kafka_url, managed_rabbitmq, private_kafka, private_rabbitmq, private_redis, rabbitmq_url, redis_url,
};
pub use bus::Bus;
pub use database::{TestDb, pending_work};
pub use database_proxy::DatabaseProxy;
pub use environment::{env_number, left_out};
pub use fleet::{Fleet, free_port};
pub use http_response::HttpResponse;
pub use platform::TestPlatform;
pub use pooler::Pooler;
pub use private_broker::PrivateBroker;
pub use private_database::PrivateDatabase;
pub use proxy::TcpProxy;
pub use scratch::Scratch;
pub use server_process::{Executable, ServerProcess, wait_until_ready};
pub use small_disk::SmallDisk;
pub use smtp::{ReceivedMail, SmtpServer, SmtpServerOptions};
pub use token::{SECRET, token};
pub use wait::{PATIENCE, eventually, eventually_within};

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("the blocking call does not panic")
}
