//! One producer, and what it may send.

use crate::{
    KafkaBroker, TOPIC_BYTES,
    batch::{Answers, Batch, judge, no_topic, too_large_for},
    connection::{Held, Until, blocking, millis, not_made, settings, unavailable},
};
use onceward_transport::{BrokerError, Parcel, Verdict};
use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, Producer, PurgeConfig, ThreadedProducer},
    types::RDKafkaRespErr,
};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, RwLock},
    time::Duration,
};
use tokio::time::Instant;

/// A topic that was made a moment ago may not be known everywhere yet.
const TOPIC_SPREADS: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// How long servers may take to copy messages to each other: librdkafka takes no less and no more.
const KEEPING: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(900));
/// How long to wait for room in the producer's memory before looking again.
const ROOM: Duration = Duration::from_millis(5);

/// One producer, and the topics that exist, each with the largest record that it takes.
pub(crate) struct Publisher {
    producer: Held<ThreadedProducer<Answers>>,
    topics: Mutex<HashMap<String, usize>>,
    /// Nothing may follow into a producer that is being emptied: it would arrive without what was before it.
    ended: RwLock<bool>,
}

impl Publisher {
    pub(crate) fn new(broker: &KafkaBroker) -> Result<Self, BrokerError> {
        let (target, mut settings) = settings(&broker.config)?;
        settings
            .set("enable.idempotence", "true")
            .set("enable.gapless.guarantee", "true")
            .set("acks", "all")
            .set("message.timeout.ms", "0")
            .set("request.timeout.ms", millis(broker.config.publish_timeout.clamp(KEEPING.0, KEEPING.1)))
            .set("message.max.bytes", TOPIC_BYTES.to_string())
            // What comes together goes together. The client waits for less than a millisecond by spinning, so this is not less.
            .set("linger.ms", "5")
            .set("compression.type", target.compression())
            // As every other client does it, so that they agree on the partition of a key.
            .set("partitioner", "murmur2_random");
        let producer = settings.create_with_context(Answers::default()).map_err(not_made)?;
        Ok(Self { producer: Held::new(producer, &broker.open), topics: Mutex::default(), ended: RwLock::new(false) })
    }

    /// Those of `exchanges` that have no topic.
    pub(crate) async fn missing(
        self: &Arc<Self>,
        exchanges: Vec<String>,
        limit: Duration,
    ) -> Result<HashSet<String>, BrokerError> {
        let publisher = self.clone();
        let ask = move || {
            let (until, spread) = (Until::in_time(limit), Until::in_time(TOPIC_SPREADS));
            let missing =
                exchanges.into_iter().filter_map(|exchange| match publisher.has_topic(&exchange, until, spread) {
                    Ok(true) => None,
                    Ok(false) => Some(Ok(exchange)),
                    Err(error) => Some(Err(error)),
                });
            missing.collect()
        };
        blocking("asking for topics", limit, ask).await
    }

    fn has_topic(&self, exchange: &str, until: Until, spread: Until) -> Result<bool, BrokerError> {
        loop {
            let metadata = self.producer.client().fetch_metadata(Some(exchange), until.left());
            let metadata = metadata.map_err(|error| unavailable("asking for a topic", self.reason(error)))?;
            match metadata.topics().first().and_then(|topic| topic.error()) {
                Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION) => return Ok(false),
                Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) if spread.is_over() => return Ok(false),
                Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) => std::thread::sleep(ASK_AGAIN),
                _ => return Ok(true),
            }
        }
    }

    /// Those of `exchanges` about which nothing is known yet.
    pub(crate) fn unknown(&self, exchanges: BTreeSet<&str>) -> Vec<String> {
        let topics = self.topics.lock().expect("no panic while held");
        exchanges.into_iter().filter(|exchange| !topics.contains_key(*exchange)).map(str::to_owned).collect()
    }

    pub(crate) fn learn(&self, learnt: Vec<(String, usize)>) {
        self.topics.lock().expect("no panic while held").extend(learnt);
    }

    pub(crate) fn forget(&self, exchange: &str) {
        self.topics.lock().expect("no panic while held").remove(exchange);
    }

    /// Why Kafka would not take a parcel; `None` if it may.
    pub(crate) fn objection(&self, parcel: &Parcel) -> Option<String> {
        let exchange = &parcel.topic.exchange;
        match self.topics.lock().expect("no panic while held").get(exchange) {
            None => Some(no_topic(exchange)),
            Some(largest) => (record_bytes(parcel) > *largest).then(|| too_large_for(exchange)),
        }
    }

    /// Sends parcels in their order. An error says why not all of them could be.
    pub(crate) async fn send(&self, batch: &Arc<Batch>, parcels: &[&Parcel], until: Instant) -> Result<(), String> {
        for (index, parcel) in parcels.iter().enumerate() {
            while let Err(error) = self.enqueue(batch, index, parcel)? {
                if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                    let why = judge(&error, &parcel.topic.exchange)?;
                    batch.answer(index, Ok(Verdict::Refused(why)));
                    break;
                }
                batch.open()?;
                if Instant::now() >= until {
                    return Err("there is no room for more messages without an answer".to_owned());
                }
                tokio::time::sleep(ROOM).await;
            }
        }
        Ok(())
    }

    fn enqueue(&self, batch: &Arc<Batch>, index: usize, parcel: &Parcel) -> Result<Result<(), KafkaError>, String> {
        let ended = self.ended.read().expect("no panic while held");
        if *ended {
            return Err("the connection was given up".to_owned());
        }
        let mut headers = OwnedHeaders::new_with_capacity(parcel.headers.len());
        for (name, value) in parcel.headers.iter() {
            headers = headers.insert(Header { key: name, value: Some(value) });
        }
        let mut record = BaseRecord::with_opaque_to(&parcel.topic.exchange, batch.ticket(index))
            .payload(&parcel.body[..])
            .headers(headers);
        if let Some(key) = &parcel.ordering_key {
            record = record.key(key.as_str());
        }
        Ok(self.producer.send(record).map_err(|(error, _)| error))
    }

    /// Empties the producer for good. Nothing that it has not sent yet is sent after this.
    pub(crate) async fn empty(self: &Arc<Self>, limit: Duration) {
        *self.ended.write().expect("no panic while held") = true;
        let publisher = self.clone();
        let empty = move || {
            publisher.producer.purge(PurgeConfig::default().queue().inflight());
            Ok(())
        };
        if let Err(error) = blocking("emptying a producer", limit, empty).await {
            tracing::debug!(%error, "a producer that was given up empties itself later");
        }
    }

    /// The error, with what the client says of its connections.
    pub(crate) fn reason(&self, error: impl std::fmt::Display) -> String {
        self.producer.context().0.reason(error)
    }
}

/// What Kafka counts, and a little more.
fn record_bytes(parcel: &Parcel) -> usize {
    const RECORD: usize = 100;
    const HEADER: usize = 10;
    let headers: usize = parcel.headers.iter().map(|(name, value)| name.len() + value.len() + HEADER).sum();
    parcel.body.len() + parcel.ordering_key.as_ref().map_or(0, String::len) + headers + RECORD
}
