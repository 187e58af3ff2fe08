//! Brokers for tests: one that all tests share, and private ones for drills that kill theirs.
//!
//! Starting one takes seconds and blocks: from async code, wrap it in `spawn_blocking`.

use onceward_local_brokers::{Broker, Kafka, KafkaPrograms, RabbitMq, RabbitMqPrograms, Redis, RedisPrograms, Server};
use std::{env, sync::OnceLock};

/// The RabbitMQ in `ONCEWARD_TEST_RABBITMQ_URL`, or else a private one that lives as long as this process.
pub fn rabbitmq_url() -> String {
    static PRIVATE: OnceLock<RabbitMq> = OnceLock::new();
    shared("ONCEWARD_TEST_RABBITMQ_URL", &PRIVATE)
}

/// The Redis in `ONCEWARD_TEST_REDIS_URL`, or else a private one that lives as long as this process.
pub fn redis_url() -> String {
    static PRIVATE: OnceLock<Redis> = OnceLock::new();
    shared("ONCEWARD_TEST_REDIS_URL", &PRIVATE)
}

/// The Kafka in `ONCEWARD_TEST_KAFKA_URL`, or else a private one that lives as long as this process.
pub fn kafka_url() -> String {
    static PRIVATE: OnceLock<Kafka> = OnceLock::new();
    shared("ONCEWARD_TEST_KAFKA_URL", &PRIVATE)
}

/// A RabbitMQ that only the caller uses and may kill. Its folder goes with it.
pub fn private_rabbitmq() -> RabbitMq {
    private::<RabbitMqPrograms>()
}

/// A Redis that only the caller uses and may kill. Its folder goes with it.
pub fn private_redis() -> Redis {
    private::<RedisPrograms>()
}

/// A Kafka that only the caller uses and may kill. Its folder goes with it.
pub fn private_kafka() -> Kafka {
    private::<KafkaPrograms>()
}

fn shared<B: Broker>(variable: &str, private_server: &OnceLock<Server<B>>) -> String {
    match env::var(variable) {
        Ok(url) if !url.is_empty() => url,
        // A static is never dropped; the server's guardian sees the end of this process.
        _ => private_server.get_or_init(private).url(),
    }
}

fn private<B: Broker>() -> Server<B> {
    B::find().and_then(|programs| Server::temporary(&programs)).unwrap_or_else(|error| panic!("{error}"))
}
