//! What a reader has in hand of each partition, and how far it has come.

use rdkafka::{Offset, TopicPartitionList, error::KafkaResult};

/// One partition's place.
#[derive(Debug, PartialEq)]
struct Place {
    topic: String,
    partition: i32,
    /// The first message handed out and not accepted.
    held_from: Option<i64>,
    /// After the last one handed out or passed over.
    next: i64,
    /// What the broker has been told.
    told: i64,
}

/// The places of one assignment.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Hand {
    places: Vec<Place>,
    held: usize,
}

impl Hand {
    /// How many messages were handed out and not accepted.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// A message is handed out.
    pub(crate) fn take(&mut self, topic: &str, partition: i32, offset: i64) {
        let place = self.advance(topic, partition, offset);
        place.held_from.get_or_insert(offset);
        self.held += 1;
    }

    /// A message is not for this queue.
    pub(crate) fn pass_over(&mut self, topic: &str, partition: i32, offset: i64) {
        self.advance(topic, partition, offset);
    }

    fn advance(&mut self, topic: &str, partition: i32, offset: i64) -> &mut Place {
        let same = |place: &Place| place.partition == partition && place.topic == topic;
        let at = self.places.iter().position(same).unwrap_or_else(|| {
            let topic = topic.to_owned();
            self.places.push(Place { topic, partition, held_from: None, next: offset, told: offset });
            self.places.len() - 1
        });
        let place = &mut self.places[at];
        place.next = offset + 1;
        place
    }

    /// What the broker has not been told yet: everything up to here was written down or passed over.
    pub(crate) fn untold(&self) -> KafkaResult<TopicPartitionList> {
        let moved = self.places.iter().filter(|place| place.next > place.told);
        list(moved.map(|place| (place, place.next)))
    }

    /// The broker has been told.
    pub(crate) fn accepted(&mut self) {
        self.held = 0;
        for place in &mut self.places {
            (place.held_from, place.told) = (None, place.next);
        }
    }

    /// Where to begin again so that everything in hand comes again.
    pub(crate) fn back(&self) -> KafkaResult<TopicPartitionList> {
        list(self.places.iter().filter_map(|place| Some((place, place.held_from?))))
    }

    /// Everything in hand comes again.
    pub(crate) fn given_back(&mut self) {
        self.held = 0;
        for place in &mut self.places {
            place.next = place.held_from.take().unwrap_or(place.next);
        }
    }
}

fn list<'a>(places: impl Iterator<Item = (&'a Place, i64)>) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (place, offset) in places {
        list.add_partition_offset(&place.topic, place.partition, Offset::Offset(offset))?;
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
    fn what_was_taken_and_passed_over_is_told_once() {
        let mut hand = Hand::default();
        hand.take("a", 0, 5);
        hand.pass_over("a", 0, 6);
        hand.take("a", 1, 9);
        hand.pass_over("b", 0, 0);
        assert_eq!(hand.held(), 2);
        assert_eq!(offsets(hand.untold()), [("a".into(), 0, 7), ("a".into(), 1, 10), ("b".into(), 0, 1)]);
        hand.accepted();
        assert_eq!((hand.held(), offsets(hand.untold())), (0, vec![]));
        hand.take("a", 1, 10);
        assert_eq!(offsets(hand.untold()), [("a".into(), 1, 11)]);
    }

    #[test]
    fn what_is_given_back_begins_with_the_first_that_was_not_accepted() {
        let mut hand = Hand::default();
        hand.take("a", 0, 5);
        hand.accepted();
        hand.take("a", 0, 6);
        hand.pass_over("a", 0, 7);
        hand.take("a", 0, 8);
        hand.pass_over("a", 1, 3);
        assert_eq!(offsets(hand.back()), [("a".into(), 0, 6)]);
        hand.given_back();
        assert_eq!((hand.held(), offsets(hand.back())), (0, vec![]));
        assert_eq!(offsets(hand.untold()), [("a".into(), 1, 4)]);
    }
}
