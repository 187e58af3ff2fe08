//! One producer, and the topics that it may send to.

use crate::{
    KafkaBroker, TOPIC_BYTES,
    batch::{Batch, DeliveryReports, no_topic, refusal, too_large_for},
    connection::{Deadline, ManagedClient, blocking, creation_error, millis, settings, unavailable},
};
use onceward_broker::{BrokerError, Parcel, PublishOutcome};
use parking_lot::{Mutex, RwLock};
use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, Producer, PurgeConfig, ThreadedProducer},
    types::RDKafkaRespErr,
};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// How long a new topic may take to become known to all servers.
const METADATA_PROPAGATION: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How long servers may take to replicate messages: the range that librdkafka accepts.
const REQUEST_TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(900));
/// How long to wait for space in the producer's queue before the next attempt.
const QUEUE_FULL_RETRY: Duration = Duration::from_millis(5);

/// One producer, and the existing topics, each with the largest record that it accepts.
pub(crate) struct KafkaPublisher {
    producer: ManagedClient<ThreadedProducer<DeliveryReports>>,
    topics: Mutex<HashMap<String, usize>>,
    /// Nothing may be sent after a purge: it would arrive without the messages before it.
    purged: RwLock<bool>,
}

impl KafkaPublisher {
    pub(crate) fn new(broker: &KafkaBroker) -> Result<Self, BrokerError> {
        let (url, mut settings) = settings(&broker.config)?;
        settings
            .set("enable.idempotence", "true")
            .set("enable.gapless.guarantee", "true")
            .set("acks", "all")
            .set("message.timeout.ms", "0")
            .set(
                "request.timeout.ms",
                millis(broker.config.publish_timeout.clamp(REQUEST_TIMEOUT_RANGE.0, REQUEST_TIMEOUT_RANGE.1)),
            )
            .set("message.max.bytes", TOPIC_BYTES.to_string())
            // Batches messages sent together. The client spins on waits below one millisecond, so this is well above.
            .set("linger.ms", "5")
            .set("compression.type", url.compression())
            // The default of other clients, so that all agree on the partition of a key.
            .set("partitioner", "murmur2_random");
        let producer = settings.create_with_context(DeliveryReports::default()).map_err(creation_error)?;
        Ok(Self {
            producer: ManagedClient::new(producer, &broker.open_clients),
            topics: Mutex::default(),
            purged: RwLock::new(false),
        })
    }

    /// Returns those of `exchanges` that have no topic.
    pub(crate) async fn missing_topics(
        self: &Arc<Self>,
        exchanges: Vec<String>,
        limit: Duration,
    ) -> Result<HashSet<String>, BrokerError> {
        let publisher = self.clone();
        let lookup = move || {
            let (deadline, propagated) = (Deadline::after(limit), Deadline::after(METADATA_PROPAGATION));
            let missing = exchanges.into_iter().filter_map(|exchange| {
                match publisher.has_topic(&exchange, deadline, propagated) {
                    Ok(true) => None,
                    Ok(false) => Some(Ok(exchange)),
                    Err(error) => Some(Err(error)),
                }
            });
            missing.collect()
        };
        blocking("fetching topic metadata", limit, lookup).await
    }

    fn has_topic(&self, exchange: &str, deadline: Deadline, propagated: Deadline) -> Result<bool, BrokerError> {
        loop {
            let metadata = self.producer.client().fetch_metadata(Some(exchange), deadline.remaining());
            let metadata = metadata.map_err(|error| unavailable("fetching topic metadata", self.describe(error)))?;
            match metadata.topics().first().and_then(|topic| topic.error()) {
                Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION) => return Ok(false),
                Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) if propagated.has_passed() => {
                    return Ok(false);
                }
                Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) => std::thread::sleep(RETRY_INTERVAL),
                _ => return Ok(true),
            }
        }
    }

    /// Returns those of `exchanges` that have not been looked up yet.
    pub(crate) fn unknown_topics(&self, exchanges: BTreeSet<&str>) -> Vec<String> {
        let topics = self.topics.lock();
        exchanges.into_iter().filter(|exchange| !topics.contains_key(*exchange)).map(str::to_owned).collect()
    }

    pub(crate) fn set_topic_limits(&self, limits: Vec<(String, usize)>) {
        self.topics.lock().extend(limits);
    }

    pub(crate) fn forget_topic(&self, exchange: &str) {
        self.topics.lock().remove(exchange);
    }

    /// Returns why Kafka would refuse a parcel, or `None` if it may accept it.
    pub(crate) fn refusal_reason(&self, parcel: &Parcel) -> Option<String> {
        let exchange = &parcel.topic.exchange;
        match self.topics.lock().get(exchange) {
            None => Some(no_topic(exchange)),
            Some(largest) => (record_bytes(parcel) > *largest).then(|| too_large_for(exchange)),
        }
    }

    /// Sends parcels in order. Fails with the reason if not all of them could be sent.
    pub(crate) async fn send(&self, batch: &Arc<Batch>, parcels: &[&Parcel], deadline: Instant) -> Result<(), String> {
        for (index, parcel) in parcels.iter().enumerate() {
            while let Err(error) = self.enqueue(batch, index, parcel)? {
                if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                    let why = refusal(&error, &parcel.topic.exchange)?;
                    batch.record(index, Ok(PublishOutcome::Refused(why)));
                    break;
                }
                batch.pending()?;
                if Instant::now() >= deadline {
                    return Err("the producer's queue is full of unconfirmed messages".to_owned());
                }
                tokio::time::sleep(QUEUE_FULL_RETRY).await;
            }
        }
        Ok(())
    }

    fn enqueue(&self, batch: &Arc<Batch>, index: usize, parcel: &Parcel) -> Result<Result<(), KafkaError>, String> {
        let purged = self.purged.read();
        if *purged {
            return Err("the producer was purged after an error".to_owned());
        }
        let mut headers = OwnedHeaders::new_with_capacity(parcel.headers.len());
        for (name, value) in parcel.headers.iter() {
            headers = headers.insert(Header { key: name, value: Some(value) });
        }
        let mut record = BaseRecord::with_opaque_to(&parcel.topic.exchange, batch.token(index))
            .payload(&parcel.body[..])
            .headers(headers);
        if let Some(key) = &parcel.ordering_key {
            record = record.key(key.as_str());
        }
        Ok(self.producer.send(record).map_err(|(error, _)| error))
    }

    /// Purges the producer for good. Nothing that it has not sent yet is sent after this.
    pub(crate) async fn purge(self: &Arc<Self>, limit: Duration) {
        *self.purged.write() = true;
        let publisher = self.clone();
        let purge = move || {
            publisher.producer.purge(PurgeConfig::default().queue().inflight());
            Ok(())
        };
        if let Err(error) = blocking("purging a producer", limit, purge).await {
            tracing::debug!(%error, "a discarded producer is purged in the background");
        }
    }

    /// Returns the error together with the client's last connection error.
    pub(crate) fn describe(&self, error: impl std::fmt::Display) -> String {
        self.producer.context().0.describe(error)
    }
}

/// An upper bound of the record's size as Kafka counts it.
fn record_bytes(parcel: &Parcel) -> usize {
    const RECORD_OVERHEAD: usize = 100;
    const HEADER_OVERHEAD: usize = 10;
    let headers: usize = parcel.headers.iter().map(|(name, value)| name.len() + value.len() + HEADER_OVERHEAD).sum();
    parcel.body.len() + parcel.ordering_key.as_ref().map_or(0, String::len) + headers + RECORD_OVERHEAD
}
