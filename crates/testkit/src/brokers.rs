//! Brokers for tests: one that all tests share, and private ones for drills that kill theirs.
//!
//! Starting one takes seconds and blocks: from async code, wrap it in `spawn_blocking`.

use onceward_local_brokers::{Broker, Kafka, KafkaPrograms, RabbitMq, RabbitMqPrograms, Redis, RedisPrograms, Server};
use std::{
    env,
    io::{self, Write},
    sync::OnceLock,
};

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

/// Whether `ONCEWARD_WITHOUT=rabbitmq,redis,kafka` asks to do without this broker, as `cargo xtask test` does where Kafka
/// cannot be had. Says so loudly, for a test that then passes without having tested anything.
pub fn left_out(name: &str) -> bool {
    let without = env::var("ONCEWARD_WITHOUT").unwrap_or_default();
    let left_out = without.split(',').any(|other| other.trim().eq_ignore_ascii_case(name));
    if left_out {
        // Not by a macro: the harness would swallow it.
        let _ = writeln!(io::stderr(), "\n*** {name} LEFT OUT, as ONCEWARD_WITHOUT asks: this was not tested ***");
    }
    left_out
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
