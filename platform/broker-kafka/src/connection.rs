//! Clients of librdkafka: creating, calling and closing them.
//!
//! Most of its calls block, and closing a client may wait for the network. So calls run on blocking threads with a
//! timeout, and each client is closed on its own thread.

use crate::url::KafkaUrl;
use onceward_broker::{BrokerConfig, BrokerError};
use parking_lot::Mutex;
use rdkafka::{
    ClientConfig, ClientContext,
    client::Client,
    config::RDKafkaLogLevel,
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    producer::{DeliveryResult, ProducerContext},
};
use std::{
    ops::Deref,
    time::{Duration, Instant},
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// A longer backoff between attempts to connect would delay the recovery from an outage.
const RECONNECT_MAX_MS: u64 = 500;
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// The range that librdkafka accepts.
const SOCKET_TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(300));
const CONNECT_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Returns the settings that all clients share. Reads the URL again for each client.
pub(crate) fn settings(config: &BrokerConfig) -> Result<(KafkaUrl, ClientConfig), BrokerError> {
    let url = KafkaUrl::parse(&config.address.read()?)?;
    let mut settings = ClientConfig::new();
    url.write_to(&mut settings);
    settings
        .set("client.id", "onceward")
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", RECONNECT_MAX_MS.to_string())
        .set("retry.backoff.ms", "50")
        .set("socket.keepalive.enable", "true")
        .set("socket.timeout.ms", millis(config.heartbeat.clamp(SOCKET_TIMEOUT_RANGE.0, SOCKET_TIMEOUT_RANGE.1)))
        .set("socket.connection.setup.timeout.ms", millis(config.connect_timeout.max(CONNECT_TIMEOUT_MIN)))
        // A topic that was not declared is a mistake and must not be created.
        .set("allow.auto.create.topics", "false")
        .set_log_level(RDKafkaLogLevel::Warning);
    Ok((url, settings))
}

pub(crate) fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

/// Converts the error of creating a client.
pub(crate) fn creation_error(error: KafkaError) -> BrokerError {
    match error {
        // The value is left out, because it may be a password.
        KafkaError::ClientConfig(_, why, name, _) => {
            BrokerError::Misconfigured(format!("the bus URL sets {name} to an invalid value: {why}"))
        }
        other => BrokerError::Misconfigured(format!("cannot create a Kafka client: {other}")),
    }
}

/// An error that retrying may resolve; `what` is the operation that failed.
pub(crate) fn unavailable(what: &str, error: impl std::fmt::Display) -> BrokerError {
    BrokerError::Unavailable(format!("{what}: {error}"))
}

/// Work that observes its own limit reports a better reason than our timeout, so it gets this much longer to return.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Runs blocking work on a blocking thread, and waits for it for at most `limit` and a grace period.
pub(crate) async fn blocking<T: Send + 'static>(
    what: &str,
    limit: Duration,
    work: impl FnOnce() -> Result<T, BrokerError> + Send + 'static,
) -> Result<T, BrokerError> {
    match tokio::time::timeout(limit + GRACE_PERIOD, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(unavailable(what, error)),
        Err(_) => Err(unavailable(what, format_args!("no response within {} ms", limit.as_millis()))),
    }
}

/// A deadline shared by several blocking calls.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    pub(crate) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn has_passed(self) -> bool {
        self.remaining().is_zero()
    }
}

/// Returns the first offset of a partition and the offset after its last record. Blocks.
pub(crate) fn bounds(
    client: &Client<impl ClientContext>,
    topic: &str,
    partition: i32,
    deadline: Deadline,
) -> KafkaResult<(i64, i64)> {
    use RDKafkaErrorCode as Code;
    loop {
        let found = client.fetch_watermarks(topic, partition, deadline.remaining());
        let code = found.as_ref().err().and_then(KafkaError::rdkafka_error_code);
        match code {
            // Created a moment ago, and not known to all servers yet.
            Some(
                Code::UnknownPartition
                | Code::UnknownTopicOrPartition
                | Code::LeaderNotAvailable
                | Code::NotLeaderForPartition,
            ) if !deadline.has_passed() => std::thread::sleep(RETRY_INTERVAL),
            _ => return found,
        }
    }
}

/// A client context that remembers the last error reported by the client, which is mostly why it cannot connect.
#[derive(Default)]
pub(crate) struct ClientErrors(Mutex<Option<String>>);

impl ClientErrors {
    /// Returns the error together with the last error that the client reported.
    pub(crate) fn describe(&self, error: impl std::fmt::Display) -> String {
        match &*self.0.lock() {
            Some(last) => format!("{error} ({last})"),
            None => error.to_string(),
        }
    }
}

impl ClientContext for ClientErrors {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "{reason}");
        // "All brokers down" follows the error of each server and is less specific.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.0.lock() = Some(reason.to_owned());
        }
    }
}

impl ProducerContext for ClientErrors {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

/// A client that is closed on its own thread when it is dropped.
pub(crate) struct ManagedClient<T: Send + 'static> {
    client: Option<T>,
    token: Option<TaskTrackerToken>,
}

impl<T: Send + 'static> ManagedClient<T> {
    /// `open_clients` tracks the client until it is closed.
    pub(crate) fn new(client: T, open_clients: &TaskTracker) -> Self {
        Self { client: Some(client), token: Some(open_clients.token()) }
    }
}

impl<T: Send + 'static> Deref for ManagedClient<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.client.as_ref().expect("present until dropped")
    }
}

impl<T: Send + 'static> Drop for ManagedClient<T> {
    fn drop(&mut self) {
        let (client, token) = (self.client.take(), self.token.take());
        let closing = std::thread::Builder::new().name("kafka-close".to_owned()).spawn(move || {
            drop(client);
            drop(token);
        });
        if let Err(error) = closing {
            tracing::warn!(%error, "could not start a thread to close a Kafka client; it was closed in place");
        }
    }
}
