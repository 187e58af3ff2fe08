//! The unaccepted messages of each partition, and how far it has been read.

use onceward_broker::Position;
use rdkafka::{Offset, TopicPartitionList, error::KafkaResult};

/// How far one partition has been read.
#[derive(Debug, PartialEq)]
struct PartitionProgress {
    topic: String,
    partition: i32,
    /// The offset of the first unaccepted message.
    unaccepted_from: Option<i64>,
    /// The offset after the last message delivered or skipped.
    next: i64,
    /// The offset committed to the broker.
    committed: i64,
    /// The offset in the database, or taken by the caller that will store it.
    stored: i64,
    /// The broker's time of the record before `next`; 0 if it is not known.
    last_ms: i64,
}

/// The progress of all partitions of one assignment.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct InFlight {
    partitions: Vec<PartitionProgress>,
    unaccepted: usize,
}

impl InFlight {
    /// Returns how many messages were delivered and not accepted.
    pub(crate) fn unaccepted(&self) -> usize {
        self.unaccepted
    }

    /// Records a message that is delivered.
    pub(crate) fn add(&mut self, topic: &str, partition: i32, offset: i64, written_ms: i64) {
        let progress = self.advance(topic, partition, offset, written_ms);
        progress.unaccepted_from.get_or_insert(offset);
        self.unaccepted += 1;
    }

    /// Records a message that is not for this queue.
    pub(crate) fn skip(&mut self, topic: &str, partition: i32, offset: i64, written_ms: i64) {
        self.advance(topic, partition, offset, written_ms);
    }

    fn advance(&mut self, topic: &str, partition: i32, offset: i64, written_ms: i64) -> &mut PartitionProgress {
        let same = |progress: &PartitionProgress| progress.partition == partition && progress.topic == topic;
        let at = self.partitions.iter().position(same).unwrap_or_else(|| {
            let (topic, unaccepted_from, last_ms) = (topic.to_owned(), None, 0);
            self.partitions.push(PartitionProgress {
                topic,
                partition,
                unaccepted_from,
                next: offset,
                committed: offset,
                stored: offset,
                last_ms,
            });
            self.partitions.len() - 1
        });
        let progress = &mut self.partitions[at];
        (progress.next, progress.last_ms) = (offset + 1, written_ms);
        progress
    }

    /// Returns the offsets to commit: everything before them was stored or skipped.
    pub(crate) fn uncommitted(&self) -> KafkaResult<TopicPartitionList> {
        let moved = self.partitions.iter().filter(|progress| progress.next > progress.committed);
        list(moved.map(|progress| (progress, progress.next)))
    }

    /// Returns positions that are not in the database yet. The caller must store them.
    pub(crate) fn take_positions(&mut self, queue: &str) -> Vec<Position> {
        let moved = self.partitions.iter_mut().filter(|progress| progress.next > progress.stored);
        moved
            .map(|progress| {
                progress.stored = progress.next;
                Position {
                    queue: queue.to_owned(),
                    source: progress.topic.clone(),
                    partition: progress.partition,
                    next_offset: progress.next,
                    last_ms: progress.last_ms,
                }
            })
            .collect()
    }

    /// Records that the offsets were committed.
    pub(crate) fn mark_committed(&mut self) {
        self.unaccepted = 0;
        for progress in &mut self.partitions {
            (progress.unaccepted_from, progress.committed) = (None, progress.next);
        }
    }

    /// Returns the offsets to seek to, so that all unaccepted messages are delivered again.
    pub(crate) fn first_unaccepted(&self) -> KafkaResult<TopicPartitionList> {
        list(self.partitions.iter().filter_map(|progress| Some((progress, progress.unaccepted_from?))))
    }

    /// Records that all unaccepted messages will be delivered again.
    pub(crate) fn rewind(&mut self) {
        self.unaccepted = 0;
        for progress in &mut self.partitions {
            if let Some(unaccepted_from) = progress.unaccepted_from.take() {
                (progress.next, progress.stored, progress.last_ms) =
                    (unaccepted_from, progress.stored.min(unaccepted_from), 0);
            }
        }
    }
}

fn list<'a>(partitions: impl Iterator<Item = (&'a PartitionProgress, i64)>) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (progress, offset) in partitions {
        list.add_partition_offset(&progress.topic, progress.partition, Offset::Offset(offset))?;
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(list: KafkaResult<TopicPartitionList>) -> Vec<(String, i32, i64)> {
        let list = list.unwrap();
        let raw = |offset: Offset| offset.to_raw().unwrap();
        list.elements().iter().map(|e| (e.topic().to_owned(), e.partition(), raw(e.offset()))).collect()
    }

    #[test]
    fn added_and_skipped_messages_are_committed_once() {
        let mut in_flight = InFlight::default();
        in_flight.add("a", 0, 5, 100 + 5);
        in_flight.skip("a", 0, 6, 100 + 6);
        in_flight.add("a", 1, 9, 100 + 9);
        in_flight.skip("b", 0, 0, 100);
        assert_eq!(in_flight.unaccepted(), 2);
        assert_eq!(offsets(in_flight.uncommitted()), [("a".into(), 0, 7), ("a".into(), 1, 10), ("b".into(), 0, 1)]);
        in_flight.mark_committed();
        assert_eq!((in_flight.unaccepted(), offsets(in_flight.uncommitted())), (0, vec![]));
        in_flight.add("a", 1, 10, 100 + 10);
        assert_eq!(offsets(in_flight.uncommitted()), [("a".into(), 1, 11)]);
    }

    #[test]
    fn rewinding_starts_with_the_first_unaccepted_message() {
        let mut in_flight = InFlight::default();
        in_flight.add("a", 0, 5, 100 + 5);
        in_flight.mark_committed();
        in_flight.add("a", 0, 6, 100 + 6);
        in_flight.skip("a", 0, 7, 100 + 7);
        in_flight.add("a", 0, 8, 100 + 8);
        in_flight.skip("a", 1, 3, 100 + 3);
        assert_eq!(offsets(in_flight.first_unaccepted()), [("a".into(), 0, 6)]);
        in_flight.rewind();
        assert_eq!((in_flight.unaccepted(), offsets(in_flight.first_unaccepted())), (0, vec![]));
        assert_eq!(offsets(in_flight.uncommitted()), [("a".into(), 1, 4)]);
    }

    #[test]
    fn positions_are_taken_once_and_name_the_record_before_them() {
        let mut in_flight = InFlight::default();
        in_flight.add("a", 0, 5, 105);
        in_flight.skip("a", 0, 6, 106);
        let of = |next_offset, last_ms| Position {
            queue: "q".into(),
            source: "a".into(),
            partition: 0,
            next_offset,
            last_ms,
        };
        assert_eq!(in_flight.take_positions("q"), [of(7, 106)]);
        assert_eq!(in_flight.take_positions("q"), []);
        in_flight.add("a", 0, 7, 107);
        assert_eq!(in_flight.take_positions("q"), [of(8, 107)]);
    }

    #[test]
    fn positions_exclude_messages_that_were_given_back() {
        let mut in_flight = InFlight::default();
        in_flight.skip("a", 0, 5, 105);
        in_flight.add("a", 0, 6, 106);
        in_flight.rewind();
        let taken: Vec<(i64, i64)> = in_flight.take_positions("q").iter().map(|p| (p.next_offset, p.last_ms)).collect();
        assert_eq!(taken, [(6, 0)]);
    }
}
