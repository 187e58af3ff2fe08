//! Where each queue begins.
//!
//! A group that has committed nothing yet would begin with everything that Kafka still keeps, days before its
//! queue was thought of; or at the end, and lose what came before its first reader. So `declare` writes down where
//! each topic ended when a queue was bound to it, as one record `{queue, exchange, offsets}` in a topic of its own,
//! and that is where the group begins. Kafka forgets the offsets of a group that nobody reads for a week; this
//! topic forgets nothing.
//!
//! Of several records the lowest offsets count: when two processes declare at once, the earlier one is right. No
//! offset for a partition, because it was added later or the topic was made together with the queue, means its
//! beginning.

use crate::connection::{Until, bounds, unavailable};
use onceward_topology::Topic;
use onceward_transport::{BrokerError, Parcel};
use rdkafka::{
    Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::KafkaError,
};
use std::collections::HashMap;
use uuid::Uuid;

/// The topic.
pub(crate) const TOPIC: &str = "onceward-queues";

/// Offsets by queue and exchange.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Births(HashMap<(String, String), Vec<i64>>);

impl Births {
    /// Reads the whole topic. `consumer` must not be subscribed to anything.
    pub(crate) fn read<C: ConsumerContext>(consumer: &BaseConsumer<C>, until: Until) -> Result<Self, BrokerError> {
        let failed = |error: KafkaError| unavailable("reading where queues begin", error);
        let (mut next, end) = bounds(consumer.client(), TOPIC, 0, until).map_err(failed)?;
        let mut births = Self::default();
        if next == end {
            return Ok(births);
        }
        let mut partition = TopicPartitionList::new();
        partition.add_partition_offset(TOPIC, 0, Offset::Offset(next)).map_err(failed)?;
        consumer.assign(&partition).map_err(failed)?;
        while next < end {
            match consumer.poll(until.left()) {
                Some(Ok(record)) => {
                    births.add(record.payload().unwrap_or_default());
                    next = record.offset() + 1;
                }
                // The client tries again by itself for as long as there is time.
                Some(Err(_)) | None if !until.is_over() => {}
                Some(Err(error)) => return Err(failed(error)),
                None => return Err(unavailable("reading where queues begin", "no answer in time")),
            }
        }
        consumer.unassign().map_err(failed)?;
        Ok(births)
    }

    fn add(&mut self, record: &[u8]) {
        let Some((queue, exchange, offsets)) = parse(record) else {
            return;
        };
        let known = self.0.entry((queue, exchange)).or_insert_with(|| offsets.clone());
        known.truncate(offsets.len());
        for (known, offset) in known.iter_mut().zip(offsets) {
            *known = offset.min(*known);
        }
    }

    /// Where a queue began in each partition of an exchange; `None` if it was never declared.
    pub(crate) fn of(&self, queue: &str, exchange: &str) -> Option<&[i64]> {
        self.0.get(&(queue.to_owned(), exchange.to_owned())).map(Vec::as_slice)
    }
}

/// The record of a queue that begins at `offsets`.
pub(crate) fn record(queue: &str, exchange: &str, offsets: &[i64]) -> Parcel {
    let body = serde_json::json!({ "queue": queue, "exchange": exchange, "offsets": offsets });
    Parcel {
        id: Uuid::now_v7(),
        topic: Topic::new(TOPIC, "").into(),
        ordering_key: Some(queue.to_owned()),
        priority: 0,
        headers: Default::default(),
        body: body.to_string().into(),
        expected: false,
    }
}

fn parse(record: &[u8]) -> Option<(String, String, Vec<i64>)> {
    let record: serde_json::Value = serde_json::from_slice(record).ok()?;
    let text = |name: &str| record.get(name)?.as_str().map(str::to_owned);
    let offsets = record.get("offsets")?.as_array()?.iter().map(serde_json::Value::as_i64);
    Some((text("queue")?, text("exchange")?, offsets.collect::<Option<Vec<i64>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn births(records: &[(&str, &[i64])]) -> Births {
        let mut births = Births::default();
        for (queue, offsets) in records {
            births.add(&record(queue, "e", offsets).body);
        }
        births
    }

    #[test]
    fn the_lowest_offsets_count() {
        let births = births(&[("q", &[5, 7, 9]), ("other", &[1]), ("q", &[6, 3])]);
        assert_eq!(births.of("q", "e"), Some(&[5, 3][..]));
        assert_eq!(births.of("other", "e"), Some(&[1][..]));
        assert_eq!(births.of("q", "another"), None);
    }

    #[test]
    fn a_topic_made_anew_is_read_from_its_beginning() {
        assert_eq!(births(&[("q", &[5, 7]), ("q", &[])]).of("q", "e"), Some(&[][..]));
    }

    #[test]
    fn what_is_no_record_is_left_out() {
        let mut births = Births::default();
        for text in ["", "{}", "{\"queue\":1}", "{\"queue\":\"q\",\"exchange\":\"e\",\"offsets\":[\"x\"]}"] {
            births.add(text.as_bytes());
        }
        assert_eq!(births, Births::default());
    }
}
