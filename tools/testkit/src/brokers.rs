//! Brokers for tests: one that all tests share, and private ones for tests that kill theirs.
//!
//! Starting one takes seconds and blocks: from async code, wrap it in `spawn_blocking`.

use onceward_local_brokers::{
    Kafka, KafkaPrograms, LocalBroker, RabbitMq, RabbitMqPrograms, Redis, RedisPrograms, Server,
};
use std::{env, sync::OnceLock};

/// Returns the URL of the RabbitMQ in `ONCEWARD_TEST_RABBITMQ_URL`, or of a private one that lives as long as this
/// process.
pub fn rabbitmq_url() -> String {
    static PRIVATE: OnceLock<RabbitMq> = OnceLock::new();
    shared("ONCEWARD_TEST_RABBITMQ_URL", &PRIVATE)
}

/// Returns the URL of the Redis in `ONCEWARD_TEST_REDIS_URL`, or of a private one that lives as long as this process.
pub fn redis_url() -> String {
    static PRIVATE: OnceLock<Redis> = OnceLock::new();
    shared("ONCEWARD_TEST_REDIS_URL", &PRIVATE)
}

/// Returns the URL of the Kafka in `ONCEWARD_TEST_KAFKA_URL`, or of a private one that lives as long as this process.
pub fn kafka_url() -> String {
    static PRIVATE: OnceLock<Kafka> = OnceLock::new();
    shared("ONCEWARD_TEST_KAFKA_URL", &PRIVATE)
}

/// Starts a RabbitMQ that only the caller uses and may kill. Its folder is removed with it.
pub fn private_rabbitmq() -> RabbitMq {
    private::<RabbitMqPrograms>()
}

/// Like [`private_rabbitmq`], with the management API, to query the broker itself.
pub fn managed_rabbitmq() -> RabbitMq {
    let programs = RabbitMqPrograms::find().unwrap_or_else(|error| panic!("{error}"));
    Server::temporary(&programs.with_management()).unwrap_or_else(|error| panic!("{error}"))
}

/// Starts a Redis that only the caller uses and may kill. Its folder is removed with it.
pub fn private_redis() -> Redis {
    private::<RedisPrograms>()
}

/// Starts a Kafka that only the caller uses and may kill. Its folder is removed with it.
pub fn private_kafka() -> Kafka {
    private::<KafkaPrograms>()
}

fn shared<B: LocalBroker>(variable: &str, private_server: &OnceLock<Server<B>>) -> String {
    match env::var(variable) {
        Ok(url) if !url.is_empty() => url,
        // A static is never dropped; the server's guardian detects the end of this process.
        _ => private_server.get_or_init(private).url(),
    }
}

fn private<B: LocalBroker>() -> Server<B> {
    B::find().and_then(|programs| Server::temporary(&programs)).unwrap_or_else(|error| panic!("{error}"))
}
