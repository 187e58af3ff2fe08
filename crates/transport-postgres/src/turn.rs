//! A turn: messages of some lanes, handled and settled in one transaction.

use crate::{
    cursor::{Source, Taken},
    queue::{LaneGuard, LaneQueue},
    routes::OUTBOX,
    rows::{Found, LaneHead, Message, Place, Read, Unreadable},
    settle::{Identity, Writes},
};
use async_trait::async_trait;
use onceward_db::Tx;
use onceward_transport::{Delivery, Settlement, TransportError, Turn};
use std::{collections::HashSet, fmt::Write as _};

/// A turn of a handler, who is given deliveries, or of the relay, who needs less.
pub(crate) struct LaneTurn<M = Delivery> {
    tx: Option<Tx>,
    guard: LaneGuard,
    lanes: Vec<LanePart>,
    messages: Vec<M>,
    places: Vec<Place>,
    blocked: Vec<(Place, M)>,
    unreadable: Vec<(Place, Unreadable)>,
    identity: Identity,
}

/// What this turn takes out of one lane.
struct LanePart {
    head: LaneHead,
    taken: Taken,
    careful_until: i64,
    more: bool,
}

impl<M: Message> LaneTurn<M> {
    pub(crate) fn new(queue: &LaneQueue, tx: Tx, guard: LaneGuard, read: Vec<Read<M>>, per_lane: i32) -> Self {
        let mut turn = Self {
            tx: Some(tx),
            guard,
            lanes: Vec::new(),
            messages: Vec::new(),
            places: Vec::new(),
            blocked: Vec::new(),
            unreadable: Vec::new(),
            identity: queue.identity(),
        };
        for Read { head, found } in read {
            turn.add_lane(head, found, usize::try_from(per_lane).unwrap_or(usize::MAX));
        }
        turn
    }

    fn add_lane(&mut self, head: LaneHead, mut found: Vec<Found<M>>, per_lane: usize) {
        let newest = found.iter().map(|message| message.place.seq).max().unwrap_or(0);
        let suspicious = LaneQueue::is_suspicious(head.starts);
        let was_careful = head.cursor.last_seq < head.careful_until;
        let careful = suspicious || was_careful;
        let careful_until = if suspicious { head.careful_until.max(newest) } else { head.careful_until };
        let more = !found.is_empty();
        let sources: Vec<Source> = found.iter().map(|message| message.place.source()).collect();
        let most = if careful { 1 } else { usize::MAX };
        let (count, taken) = head.cursor.take(&sources, per_lane, most);
        found.truncate(count);
        for message in found {
            self.add_message(message, LaneQueue::starts_alone(head.starts, was_careful));
        }
        self.lanes.push(LanePart { head, taken, careful_until, more });
    }

    fn add_message(&mut self, found: Found<M>, starts_alone: u32) {
        let blocked = found.place.blocked && self.identity.ordered;
        match found.message {
            Err(unreadable) => self.unreadable.push((found.place, unreadable)),
            Ok(message) if blocked => self.blocked.push((found.place, message)),
            Ok(mut message) => {
                message.add_attempts(starts_alone);
                self.places.push(found.place);
                self.messages.push(message);
            }
        }
    }

    /// Ends a turn that has nothing to hand out, after writing down what it learnt.
    pub(crate) async fn or_nothing(self) -> Result<Option<Self>, TransportError> {
        if !self.messages.is_empty() {
            return Ok(Some(self));
        }
        if self.blocked.is_empty() && self.unreadable.is_empty() && !self.lanes.iter().any(LanePart::moves) {
            return Ok(None);
        }
        self.finish(Vec::new(), &[]).await?;
        Ok(None)
    }

    pub(crate) fn started_lanes(&self) -> (String, String) {
        let text = |numbers: Vec<String>| format!("{{{}}}", numbers.join(","));
        (
            text(self.lanes.iter().map(|part| part.head.lane_id.to_string()).collect()),
            text(self.lanes.iter().map(|part| (part.head.turn + 1).to_string()).collect()),
        )
    }

    pub(crate) fn messages(&self) -> &[M] {
        &self.messages
    }

    pub(crate) fn take_messages(&mut self) -> Vec<(Place, M)> {
        let places = std::mem::take(&mut self.places);
        places.into_iter().zip(std::mem::take(&mut self.messages)).collect()
    }

    pub(crate) fn transaction(&self) -> &Tx {
        self.tx.as_ref().expect("a turn has its transaction until it is settled")
    }

    /// Writes what becomes of messages and lanes, and commits.
    /// `aside` was taken out of the turn, and these are what becomes of it; what is still in it has its `settlements`.
    pub(crate) async fn finish(
        mut self,
        aside: Vec<(Place, M, Settlement)>,
        settlements: &[Settlement],
    ) -> Result<(), TransportError> {
        let mut writes = Writes::default();
        for (place, message, settlement) in &aside {
            writes.add(&self.identity, place, message, settlement);
        }
        for ((place, message), settlement) in self.places.iter().zip(&self.messages).zip(settlements) {
            writes.add(&self.identity, place, message, settlement);
        }
        for (place, message) in &self.blocked {
            writes.add(&self.identity, place, message, &Settlement::Behind);
        }
        for (place, unreadable) in &self.unreadable {
            writes.bury_unreadable(&self.identity, place, unreadable);
        }
        let mut tx = self.tx.take().expect("a turn is finished once");
        writes.run(&tx).await?;
        if M::QUIET && writes.is_empty() {
            // If the server crashes now, what was carried is carried once more.
            tx.queue_statements("SET LOCAL synchronous_commit = off");
        }
        tx.queue_statements(&self.advance_statement());
        tx.commit().await?;
        let again: HashSet<i32> = self.lanes.iter().filter(|part| part.more).map(|part| part.head.lane_id).collect();
        self.guard.release(|lane| again.contains(&lane));
        if writes.puts_aside() {
            self.guard.shared().scout.within(std::time::Duration::ZERO);
        }
        Ok(())
    }

    /// The call that moves the lanes on, as text: it is all numbers of ours, and so travels with the commit.
    fn advance_statement(&self) -> String {
        let mut columns: [String; 6] = Default::default();
        for part in &self.lanes {
            let cursor = part.head.cursor.after(&part.head.snapshot, &part.taken);
            let separator = if columns[0].is_empty() { "" } else { "," };
            let _ = write!(columns[0], "{separator}{}", part.head.lane_id);
            let _ = write!(columns[1], "{separator}{}", part.head.turn + 1);
            let _ = write!(columns[2], "{separator}{}", cursor.last_seq);
            let _ = write!(columns[3], "{separator}\"{}\"", cursor.xids_text());
            let _ = write!(columns[4], "{separator}\"{}\"", cursor.floors_text());
            let _ = write!(columns[5], "{separator}{}", part.careful_until);
        }
        let [lanes, turns, last_seqs, xids, floors, careful] = columns;
        let function = if self.identity.queue == OUTBOX { "advance_outbox" } else { "advance" };
        format!(
            "SELECT onceward.{function}('{{{lanes}}}', '{{{turns}}}', '{{{last_seqs}}}', '{{{xids}}}', '{{{floors}}}', '{{{careful}}}')"
        )
    }
}

impl LanePart {
    fn moves(&self) -> bool {
        self.head.cursor.after(&self.head.snapshot, &self.taken) != self.head.cursor
    }
}

#[async_trait]
impl Turn for LaneTurn {
    fn deliveries(&self) -> &[Delivery] {
        &self.messages
    }

    fn tx(&mut self) -> &mut Tx {
        self.tx.as_mut().expect("a turn has its transaction until it is settled")
    }

    fn split(&mut self) -> (&[Delivery], &mut Tx) {
        (&self.messages, self.tx.as_mut().expect("a turn has its transaction until it is settled"))
    }

    async fn settle(self: Box<Self>, settlements: Vec<Settlement>) -> Result<(), TransportError> {
        assert_eq!(self.messages.len(), settlements.len(), "one settlement for each delivery");
        self.finish(Vec::new(), &settlements).await
    }
}
