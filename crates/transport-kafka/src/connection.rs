//! Clients of librdkafka: how they are set up, asked and ended.
//!
//! Most of its calls block, and ending a client may wait for the network. So calls run on threads that may
//! block, within a time, and clients end on a thread of their own.

use crate::url::Target;
use onceward_transport::{BrokerConfig, BrokerError};
use rdkafka::{
    ClientConfig, ClientContext,
    client::Client,
    config::RDKafkaLogLevel,
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    producer::{DeliveryResult, ProducerContext},
};
use std::{
    ops::Deref,
    sync::Mutex,
    time::{Duration, Instant},
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// Longer waits between two attempts to connect make the way back from an outage slow.
const RECONNECT_MAX_MS: u64 = 500;
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// librdkafka takes no less and no more.
const SILENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(300));
const CONNECT_MIN: Duration = Duration::from_secs(1);

/// The settings that every client has. The URL is read anew for each.
pub(crate) fn settings(config: &BrokerConfig) -> Result<(Target, ClientConfig), BrokerError> {
    let target = Target::parse(&config.address.read()?)?;
    let mut settings = ClientConfig::new();
    target.write_to(&mut settings);
    settings
        .set("client.id", "onceward")
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", RECONNECT_MAX_MS.to_string())
        .set("retry.backoff.ms", "50")
        .set("socket.keepalive.enable", "true")
        .set("socket.timeout.ms", millis(config.heartbeat.clamp(SILENCE.0, SILENCE.1)))
        .set("socket.connection.setup.timeout.ms", millis(config.connect_timeout.max(CONNECT_MIN)))
        // What nobody declared is a mistake, not a wish.
        .set("allow.auto.create.topics", "false")
        .set_log_level(RDKafkaLogLevel::Warning);
    Ok((target, settings))
}

pub(crate) fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

/// Why a client could not be made.
pub(crate) fn not_made(error: KafkaError) -> BrokerError {
    match error {
        // Without the value, which may be a password.
        KafkaError::ClientConfig(_, why, name, _) => {
            BrokerError::Misconfigured(format!("the bus URL leads to a wrong setting {name}: {why}"))
        }
        other => BrokerError::Misconfigured(format!("no connection can be set up: {other}")),
    }
}

/// Why an answer did not come.
pub(crate) fn unavailable(what: &str, error: impl std::fmt::Display) -> BrokerError {
    BrokerError::Unavailable(format!("{what}: {error}"))
}

/// Work that keeps to its limit ends by itself and knows why. It is given this long to say so.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Runs what blocks where it may, for at most `limit`.
pub(crate) async fn blocking<T: Send + 'static>(
    what: &str,
    limit: Duration,
    work: impl FnOnce() -> Result<T, BrokerError> + Send + 'static,
) -> Result<T, BrokerError> {
    match tokio::time::timeout(limit + LAST_WORD, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(unavailable(what, error)),
        Err(_) => Err(unavailable(what, format_args!("no answer within {} ms", limit.as_millis()))),
    }
}

/// The time that is left of several blocking calls.
#[derive(Clone, Copy)]
pub(crate) struct Until(Instant);

impl Until {
    pub(crate) fn in_time(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn is_over(self) -> bool {
        self.left().is_zero()
    }
}

/// Where a partition begins and ends. Blocks.
pub(crate) fn bounds(
    client: &Client<impl ClientContext>,
    topic: &str,
    partition: i32,
    until: Until,
) -> KafkaResult<(i64, i64)> {
    use RDKafkaErrorCode as Code;
    loop {
        let found = client.fetch_watermarks(topic, partition, until.left());
        let code = found.as_ref().err().and_then(KafkaError::rdkafka_error_code);
        match code {
            // Made a moment ago, and not known everywhere yet.
            Some(
                Code::UnknownPartition
                | Code::UnknownTopicOrPartition
                | Code::LeaderNotAvailable
                | Code::NotLeaderForPartition,
            ) if !until.is_over() => std::thread::sleep(ASK_AGAIN),
            _ => return found,
        }
    }
}

/// What a client says on its own, which is mostly why it cannot connect.
#[derive(Default)]
pub(crate) struct Voice(Mutex<Option<String>>);

impl Voice {
    /// The error, with the last thing that the client complained of.
    pub(crate) fn reason(&self, error: impl std::fmt::Display) -> String {
        match &*self.0.lock().expect("no panic while held") {
            Some(last) => format!("{error} ({last})"),
            None => error.to_string(),
        }
    }
}

impl ClientContext for Voice {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "{reason}");
        // That all servers are down follows what is wrong with each, and says less.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.0.lock().expect("no panic while held") = Some(reason.to_owned());
        }
    }
}

impl ProducerContext for Voice {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

/// A client that ends on a thread of its own, whoever drops it.
pub(crate) struct Held<T: Send + 'static> {
    client: Option<T>,
    token: Option<TaskTrackerToken>,
}

impl<T: Send + 'static> Held<T> {
    /// `open` tells when it has ended.
    pub(crate) fn new(client: T, open: &TaskTracker) -> Self {
        Self { client: Some(client), token: Some(open.token()) }
    }
}

impl<T: Send + 'static> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.client.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> Drop for Held<T> {
    fn drop(&mut self) {
        let (client, token) = (self.client.take(), self.token.take());
        let ending = std::thread::Builder::new().name("kafka-end".to_owned()).spawn(move || {
            drop(client);
            drop(token);
        });
        if let Err(error) = ending {
            tracing::warn!(%error, "no thread to end a Kafka client on; it was ended in place");
        }
    }
}
