//! Where each queue starts.
//!
//! A group that has committed nothing yet would start with everything that Kafka still holds, from long before its queue
//! existed; or at the end, and miss what was published before its first reader. So `declare` records where each topic
//! ended when a queue was bound to it, as one record `{queue, exchange, offsets}` in a separate topic, and the group
//! starts there. Kafka deletes the offsets of a group that is not used for a week; this topic never expires.
//!
//! If there are several records, the lowest offsets count: when two processes declare at once, the earlier one is right.
//! A partition without an offset, because it was added later or the topic was created together with the queue, is read
//! from its beginning.

use crate::connection::{Deadline, bounds, unavailable};
use onceward_broker::{BrokerError, Parcel};
use onceward_topology::Topic;
use rdkafka::{
    Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::KafkaError,
};
use std::collections::HashMap;
use uuid::Uuid;

/// The topic that holds the records.
pub(crate) const TOPIC: &str = "onceward-queues";

/// Start offsets by queue and exchange.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QueueStarts(HashMap<(String, String), Vec<i64>>);

impl QueueStarts {
    /// Reads the whole topic. `consumer` must not be subscribed to anything. Blocks.
    pub(crate) fn read<C: ConsumerContext>(
        consumer: &BaseConsumer<C>,
        deadline: Deadline,
    ) -> Result<Self, BrokerError> {
        let failed = |error: KafkaError| unavailable("reading the start offsets of queues", error);
        let (mut next, end) = bounds(consumer.client(), TOPIC, 0, deadline).map_err(failed)?;
        let mut starts = Self::default();
        if next == end {
            return Ok(starts);
        }
        let mut partition = TopicPartitionList::new();
        partition.add_partition_offset(TOPIC, 0, Offset::Offset(next)).map_err(failed)?;
        consumer.assign(&partition).map_err(failed)?;
        while next < end {
            match consumer.poll(deadline.remaining()) {
                Some(Ok(record)) => {
                    starts.add(record.payload().unwrap_or_default());
                    next = record.offset() + 1;
                }
                // The client retries until the deadline.
                Some(Err(_)) | None if !deadline.has_passed() => {}
                Some(Err(error)) => return Err(failed(error)),
                None => return Err(unavailable("reading the start offsets of queues", "no response in time")),
            }
        }
        consumer.unassign().map_err(failed)?;
        Ok(starts)
    }

    fn add(&mut self, record: &[u8]) {
        let Some((queue, exchange, offsets)) = parse(record) else {
            return;
        };
        let lowest = self.0.entry((queue, exchange)).or_insert_with(|| offsets.clone());
        lowest.truncate(offsets.len());
        for (lowest, offset) in lowest.iter_mut().zip(offsets) {
            *lowest = offset.min(*lowest);
        }
    }

    /// Returns the start offset of a queue in each partition of an exchange, or `None` if it was never declared.
    pub(crate) fn of(&self, queue: &str, exchange: &str) -> Option<&[i64]> {
        self.0.get(&(queue.to_owned(), exchange.to_owned())).map(Vec::as_slice)
    }
}

/// Returns the record of a queue that starts at `offsets`.
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

    fn starts(records: &[(&str, &[i64])]) -> QueueStarts {
        let mut starts = QueueStarts::default();
        for (queue, offsets) in records {
            starts.add(&record(queue, "e", offsets).body);
        }
        starts
    }

    #[test]
    fn the_lowest_offsets_count() {
        let starts = starts(&[("q", &[5, 7, 9]), ("other", &[1]), ("q", &[6, 3])]);
        assert_eq!(starts.of("q", "e"), Some(&[5, 3][..]));
        assert_eq!(starts.of("other", "e"), Some(&[1][..]));
        assert_eq!(starts.of("q", "another"), None);
    }

    #[test]
    fn a_recreated_topic_is_read_from_its_beginning() {
        assert_eq!(starts(&[("q", &[5, 7]), ("q", &[])]).of("q", "e"), Some(&[][..]));
    }

    #[test]
    fn malformed_records_are_ignored() {
        let mut starts = QueueStarts::default();
        for text in ["", "{}", "{\"queue\":1}", "{\"queue\":\"q\",\"exchange\":\"e\",\"offsets\":[\"x\"]}"] {
            starts.add(text.as_bytes());
        }
        assert_eq!(starts, QueueStarts::default());
    }
}
