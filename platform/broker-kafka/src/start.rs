//! Where a reader starts: where its group left off, but never before what has landed.
//!
//! Kafka deletes the offsets of a group that is not used for a while, and an operator can delete or reset them. The
//! database is more reliable: its positions are written together with the messages. So the later one of the group's offset
//! and the stored position counts; without either, the queue starts where it was declared (`queue_starts.rs`).
//!
//! A position belongs to one log. A topic that was deleted and created again starts at 0, and a position in the old log
//! would skip messages of the new one. Before a position is preferred to the group's offset, the record before it is
//! compared with the one that was read at the time.

use crate::{
    connection::{Deadline, bounds, unavailable},
    group::GroupConsumer,
    peek::{self, RecordInfo},
    queue_starts::QueueStarts,
};
use onceward_broker::{BrokerError, Position, PositionStore};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer},
    error::KafkaError,
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// How long reading the one record before a position may take.
const PEEK_TIMEOUT: Duration = Duration::from_secs(5);

/// Determines the offsets at which a queue's partitions are read.
#[derive(Clone)]
pub(crate) struct StartResolver {
    pub(crate) queue: String,
    pub(crate) starts: Arc<QueueStarts>,
    pub(crate) positions: Option<Arc<dyn PositionStore>>,
    /// The settings of a consumer that peeks at records.
    pub(crate) settings: ClientConfig,
    pub(crate) open_clients: TaskTracker,
}

/// Which log a position belongs to.
#[derive(Debug, PartialEq)]
enum LogIdentity {
    /// The current log.
    Same,
    /// The current log, which has lost its end.
    Truncated,
    /// An earlier log of the same name.
    Replaced,
}

impl StartResolver {
    /// Determines the start offset of each partition and assigns the partitions to the consumer. Blocks.
    pub(crate) fn assign(
        &self,
        consumer: &GroupConsumer,
        partitions: TopicPartitionList,
        deadline: Deadline,
    ) -> Result<(), BrokerError> {
        let committed = consumer.committed_offsets(partitions, deadline.remaining()).map_err(failed)?;
        let positions = self.load_positions()?;
        let (mut offsets, mut ahead) = (TopicPartitionList::new(), TopicPartitionList::new());
        for entry in committed.elements() {
            entry.error().map_err(failed)?;
            let committed = match entry.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            };
            let (topic, partition) = (entry.topic(), entry.partition());
            let stored = positions.iter().find(|position| position.source == topic && position.partition == partition);
            let offset = match (committed, stored) {
                (committed, Some(stored)) if committed.is_none_or(|offset| offset < stored.next_offset) => {
                    let offset = Offset::Offset(self.resolve(consumer, stored, committed, deadline)?);
                    ahead.add_partition_offset(topic, partition, offset).map_err(failed)?;
                    offset
                }
                (Some(committed), stored) => {
                    if stored.is_none_or(|stored| stored.next_offset < committed) {
                        let bounds = bounds(consumer.client(), topic, partition, deadline).map_err(failed)?;
                        let position = self.position((topic, partition), committed, bounds, deadline);
                        self.save_position(position, false)?;
                    }
                    Offset::Offset(committed)
                }
                (None, _) => self.declared_start(topic, partition),
            };
            offsets.add_partition_offset(topic, partition, offset).map_err(failed)?;
        }
        consumer.assign(&offsets).map_err(failed)?;
        // So that other tools show what has been read. Nothing depends on it.
        if ahead.count() > 0
            && let Err(error) = consumer.commit(&ahead, CommitMode::Async)
        {
            tracing::debug!(%error, "could not commit the positions in the database as the group's offsets; they stay behind for now");
        }
        Ok(())
    }

    /// Returns the offset to start at, given a stored position that is beyond the group's offset.
    fn resolve(
        &self,
        consumer: &GroupConsumer,
        stored: &Position,
        committed: Option<i64>,
        deadline: Deadline,
    ) -> Result<i64, BrokerError> {
        let (low, high) = bounds(consumer.client(), &stored.source, stored.partition, deadline).map_err(failed)?;
        let last = stored.next_offset.min(high) - 1;
        let before = match last >= low {
            true => Some(self.record_at((&stored.source, stored.partition), last, deadline)?),
            false => None,
        };
        let (queue, topic, partition, position) = (&self.queue, &stored.source, stored.partition, stored.next_offset);
        match compare_log(stored, (low, high), before.as_ref()) {
            LogIdentity::Same => {
                tracing::info!(
                    queue,
                    topic,
                    partition,
                    committed,
                    position,
                    "the group's offset in Kafka is missing or behind what has landed; continuing from the position in the database"
                );
                Ok(position)
            }
            LogIdentity::Truncated => {
                tracing::warn!(
                    queue,
                    topic,
                    partition,
                    position,
                    end = high,
                    "the topic ends before what has landed: Kafka has lost its last records; continuing from its end"
                );
                self.save_position(self.position((topic, partition), high, (low, high), deadline), true)?;
                Ok(high)
            }
            LogIdentity::Replaced => {
                let offset = committed.unwrap_or(low);
                tracing::warn!(
                    queue,
                    topic,
                    partition,
                    position,
                    offset,
                    "the topic was deleted and created again: dropping the position in the database, which belongs to the old one"
                );
                self.save_position(self.position((topic, partition), offset, (low, high), deadline), true)?;
                Ok(offset)
            }
        }
    }

    fn record_at(
        &self,
        (topic, partition): (&str, i32),
        offset: i64,
        deadline: Deadline,
    ) -> Result<RecordInfo, BrokerError> {
        let consumer = peek::consumer(self.settings.clone(), &self.open_clients)?;
        let partition = (topic.to_owned(), partition);
        let records = peek::records_at(&consumer, &HashMap::from([(partition.clone(), offset)]), deadline)?;
        records.get(&partition).copied().ok_or_else(|| unavailable("reading a record", "there is none"))
    }

    fn declared_start(&self, topic: &str, partition: i32) -> Offset {
        let starts = self.starts.of(&self.queue, topic);
        match starts.and_then(|offsets| offsets.get(usize::try_from(partition).ok()?)) {
            Some(offset) => Offset::Offset(*offset),
            None => Offset::Beginning,
        }
    }

    /// Returns a position with the time of the record before it, by which its log is recognised later; 0 if there is no such
    /// record. A record that the same log no longer holds cannot appear in it again, so a position with 0 belongs to another log
    /// as soon as there is a record before it.
    fn position(
        &self,
        (topic, partition): (&str, i32),
        next_offset: i64,
        (low, high): (i64, i64),
        deadline: Deadline,
    ) -> Position {
        let last = next_offset - 1;
        // The last offset may hold the marker of a transaction, after which no record follows.
        let soon = Deadline::after(deadline.remaining().min(PEEK_TIMEOUT));
        let record = match (low..high).contains(&last) {
            true => self.record_at((topic, partition), last, soon).ok(),
            false => None,
        };
        let last_ms = record.filter(|record| record.offset == last).map_or(0, |record| record.written_ms);
        Position { queue: self.queue.clone(), source: topic.to_owned(), partition, next_offset, last_ms }
    }

    fn load_positions(&self) -> Result<Vec<Position>, BrokerError> {
        match &self.positions {
            Some(positions) => Handle::current().block_on(positions.load(std::slice::from_ref(&self.queue))),
            None => Ok(Vec::new()),
        }
    }

    fn save_position(&self, position: Position, replace: bool) -> Result<(), BrokerError> {
        match &self.positions {
            Some(positions) => Handle::current().block_on(positions.save(&[position], replace)),
            None => Ok(()),
        }
    }
}

/// Returns which log a position belongs to. `before` is the last record before the position, or before the end of the log if
/// that is earlier; `None` if that part of the log was deleted.
fn compare_log(stored: &Position, (low, high): (i64, i64), before: Option<&RecordInfo>) -> LogIdentity {
    let is_within = stored.next_offset <= high;
    match before {
        // Everything up to the position was deleted by age: in either log, no remaining record has landed.
        None if is_within && stored.next_offset <= low => LogIdentity::Same,
        None => LogIdentity::Replaced,
        Some(before) if is_within => {
            let same = before.offset == stored.next_offset - 1 && before.written_ms == stored.last_ms;
            if same { LogIdentity::Same } else { LogIdentity::Replaced }
        }
        // In the same log, the remaining records were written before the last one that has landed.
        Some(before) if before.written_ms <= stored.last_ms => LogIdentity::Truncated,
        Some(_) => LogIdentity::Replaced,
    }
}

fn failed(error: KafkaError) -> BrokerError {
    unavailable("determining the start offsets", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(next_offset: i64, bounds: (i64, i64), before: Option<(i64, i64)>) -> LogIdentity {
        let stored = Position { queue: "q".into(), source: "t".into(), partition: 0, next_offset, last_ms: 1_000 };
        let before = before.map(|(offset, written_ms)| RecordInfo { offset, written_ms, published_at: None });
        compare_log(&stored, bounds, before.as_ref())
    }

    #[test]
    fn a_position_belongs_to_the_log_that_holds_the_record_before_it() {
        assert_eq!(identity(5, (0, 9), Some((4, 1_000))), LogIdentity::Same);
        assert_eq!(identity(5, (0, 5), Some((4, 1_000))), LogIdentity::Same);
        assert_eq!(identity(5, (0, 9), Some((4, 2_000))), LogIdentity::Replaced);
        assert_eq!(identity(5, (0, 9), Some((6, 1_000))), LogIdentity::Replaced);
    }

    #[test]
    fn a_log_that_ends_before_the_position_was_replaced_or_truncated() {
        assert_eq!(identity(5, (0, 3), Some((2, 900))), LogIdentity::Truncated);
        assert_eq!(identity(5, (0, 3), Some((2, 1_001))), LogIdentity::Replaced);
        assert_eq!(identity(5, (0, 0), None), LogIdentity::Replaced);
    }

    #[test]
    fn a_position_before_deleted_records_counts_as_the_same_log() {
        assert_eq!(identity(5, (5, 9), None), LogIdentity::Same);
        assert_eq!(identity(5, (7, 9), None), LogIdentity::Same);
        assert_eq!(identity(0, (0, 9), None), LogIdentity::Same);
    }

    #[test]
    fn a_position_without_a_time_belongs_to_another_log_once_there_is_a_record_before_it() {
        let stored = Position { queue: "q".into(), source: "t".into(), partition: 0, next_offset: 5, last_ms: 0 };
        let before = RecordInfo { offset: 4, written_ms: 1_000, published_at: None };
        assert_eq!(compare_log(&stored, (0, 9), Some(&before)), LogIdentity::Replaced);
        assert_eq!(compare_log(&stored, (5, 9), None), LogIdentity::Same);
    }
}
