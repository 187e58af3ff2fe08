//! Publishing: many parcels in flight, one wait.
//!
//! **Order.** The producer is idempotent and gapless: what it has sent of a partition arrives in its order
//! and without holes, or it stops for good. No parcel expires by itself, because one that expired before the
//! next would leave a hole. When anything is in doubt, the whole batch is an error, and with it everything else
//! that this producer had in hand: it is emptied before the error is returned and never used again. What it had
//! already put on the wire may still arrive later, in its order. Whoever publishes the batch again begins with
//! the first message in doubt, so every message has its first occurrence after those before it.

use crate::{
    KafkaBroker, MAX_BODY_BYTES, TOPIC_BYTES,
    batch::{Answers, Batch, judge, no_topic},
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
    collections::{BTreeSet, HashSet},
    sync::{Arc, Mutex, RwLock},
    time::Duration,
};
use tokio::time::Instant;

/// A topic that was made a moment ago may not be known everywhere yet.
const TOPIC_SPREADS: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// How long to wait for room in the producer's memory before looking again.
const ROOM: Duration = Duration::from_millis(5);
/// How long emptying a producer is waited for. It ends by itself in any case.
const EMPTIED: Duration = Duration::from_secs(2);

/// One producer, and the topics that it was told exist.
pub(crate) struct Publisher {
    producer: Held<ThreadedProducer<Answers>>,
    known: Mutex<HashSet<String>>,
    /// Nothing may follow into a producer that is being emptied: it would arrive without what was before it.
    ended: RwLock<bool>,
}

impl Publisher {
    fn new(broker: &KafkaBroker) -> Result<Self, BrokerError> {
        let (target, mut settings) = settings(&broker.config)?;
        settings
            .set("enable.idempotence", "true")
            .set("enable.gapless.guarantee", "true")
            .set("acks", "all")
            .set("message.timeout.ms", "0")
            .set("request.timeout.ms", millis(broker.config.publish_timeout))
            .set("message.max.bytes", TOPIC_BYTES.to_string())
            // Whole batches come at once; there is little to wait for.
            .set("linger.ms", "1")
            .set("compression.type", target.compression())
            // As every other client does it, so that they agree on the partition of a key.
            .set("partitioner", "murmur2_random");
        let producer = settings.create_with_context(Answers::default()).map_err(not_made)?;
        Ok(Self { producer: Held::new(producer, &broker.open), known: Mutex::default(), ended: RwLock::new(false) })
    }

    /// Those of `exchanges` that have no topic.
    async fn missing(
        self: &Arc<Self>,
        exchanges: BTreeSet<&str>,
        limit: Duration,
    ) -> Result<HashSet<String>, BrokerError> {
        let unknown: Vec<String> = {
            let known = self.known.lock().expect("no panic while held");
            exchanges.into_iter().filter(|exchange| !known.contains(*exchange)).map(str::to_owned).collect()
        };
        if unknown.is_empty() {
            return Ok(HashSet::new());
        }
        let publisher = self.clone();
        let ask = move || {
            let mut missing = HashSet::new();
            for exchange in unknown {
                if publisher.has_topic(&exchange, Until::in_time(limit))? {
                    publisher.known.lock().expect("no panic while held").insert(exchange);
                } else {
                    missing.insert(exchange);
                }
            }
            Ok(missing)
        };
        blocking("asking for topics", limit, ask).await
    }

    fn has_topic(&self, exchange: &str, until: Until) -> Result<bool, BrokerError> {
        let spread = Until::in_time(TOPIC_SPREADS);
        loop {
            let metadata = self.producer.client().fetch_metadata(Some(exchange), until.left());
            let metadata =
                metadata.map_err(|error| unavailable("asking for a topic", self.reason(error.to_string())))?;
            match metadata.topics().first().and_then(|topic| topic.error()) {
                Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION) => return Ok(false),
                Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) if spread.is_over() => return Ok(false),
                Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) => std::thread::sleep(ASK_AGAIN),
                _ => return Ok(true),
            }
        }
    }

    fn forget(&self, exchange: &str) {
        self.known.lock().expect("no panic while held").remove(exchange);
    }

    /// Sends parcels in their order. An error says why not all of them could be.
    async fn send(&self, batch: &Arc<Batch>, parcels: &[&Parcel], until: Instant) -> Result<(), String> {
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
        for (name, value) in &parcel.headers {
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

    /// The error, with what the client says of its connections.
    fn reason(&self, error: String) -> String {
        match self.producer.context().0.last() {
            Some(last) => format!("{error} ({last})"),
            None => error,
        }
    }
}

impl KafkaBroker {
    pub(crate) async fn send_all(&self, parcels: Vec<Parcel>) -> Result<Vec<Verdict>, BrokerError> {
        let until = Instant::now() + self.config.publish_timeout;
        let mut verdicts: Vec<Option<Verdict>> = parcels.iter().map(too_large).collect();
        loop {
            let unanswered = |verdicts: &[Option<Verdict>]| -> Vec<usize> {
                (0..parcels.len()).filter(|index| verdicts[*index].is_none()).collect()
            };
            let publisher = self.publisher()?;
            let exchanges = unanswered(&verdicts).iter().map(|index| parcels[*index].topic.exchange.as_str()).collect();
            let missing = match publisher.missing(exchanges, self.asking_time()).await {
                Ok(missing) => missing,
                Err(error) => {
                    self.give_up(publisher).await;
                    return Err(error);
                }
            };
            for (parcel, verdict) in parcels.iter().zip(&mut verdicts) {
                if missing.contains(&parcel.topic.exchange) {
                    *verdict = Some(Verdict::Refused(no_topic(&parcel.topic.exchange)));
                }
            }
            let pending = unanswered(&verdicts);
            if pending.is_empty() {
                return Ok(verdicts.into_iter().flatten().collect());
            }
            let batch = Batch::new(pending.len());
            let in_batch: Vec<&Parcel> = pending.iter().map(|index| &parcels[*index]).collect();
            let sent = match publisher.send(&batch, &in_batch, until).await {
                Ok(()) => batch.wait(until, self.config.heartbeat).await,
                Err(error) => Err(error),
            };
            let mut refused = false;
            for (index, verdict) in pending.into_iter().zip(batch.verdicts()) {
                if let Some(Verdict::Refused(_)) = &verdict {
                    publisher.forget(&parcels[index].topic.exchange);
                    refused = true;
                }
                verdicts[index] = verdict;
            }
            if let Err(why) = sent {
                let error = BrokerError::Unavailable(publisher.reason(why));
                self.give_up(publisher).await;
                // A message that is not wanted stops the producer like an outage does. Without it, the others get through.
                if !refused || Instant::now() >= until {
                    return Err(error);
                }
            }
        }
    }

    /// The producer that everybody shares.
    fn publisher(&self) -> Result<Arc<Publisher>, BrokerError> {
        let mut slot = self.publisher.lock().expect("no panic while held");
        if let Some(publisher) = &*slot {
            return Ok(publisher.clone());
        }
        let publisher = Arc::new(Publisher::new(self)?);
        *slot = Some(publisher.clone());
        Ok(publisher)
    }

    /// Empties a producer for good. Nothing that it has not sent yet is sent after this.
    async fn give_up(&self, publisher: Arc<Publisher>) {
        {
            let mut slot = self.publisher.lock().expect("no panic while held");
            if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, &publisher)) {
                *slot = None;
            }
        }
        *publisher.ended.write().expect("no panic while held") = true;
        let emptied = move || {
            publisher.producer.purge(PurgeConfig::default().queue().inflight());
            Ok(())
        };
        if let Err(error) = blocking("emptying a producer", EMPTIED, emptied).await {
            tracing::debug!(%error, "a producer that was given up empties itself later");
        }
    }
}

fn too_large(parcel: &Parcel) -> Option<Verdict> {
    let size = parcel.body.len();
    (size > MAX_BODY_BYTES)
        .then(|| Verdict::Refused(format!("its body has {size} bytes; at most {MAX_BODY_BYTES} can be carried")))
}
