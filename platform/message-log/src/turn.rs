//! A turn: messages of some lanes, handled and settled in one transaction.

use crate::{
    BusError,
    cursor::{LaneProgress, MessageSource},
    isolation::{self, LaneCandidate},
    queue_reader::{PickedLanes, QueueReader},
    routes::OUTBOX,
    settle::{ConsumerIdentity, SettlementWrites},
    turn_message::{MessageLocation, TurnMessage, UnreadableMessage},
    turn_rows::{LaneHead, LaneRows, ReadMessage},
};
use onceward_broker::{Delivery, Settlement};
use onceward_db::Tx;
use std::{collections::HashSet, fmt::Write as _};

// In `migrations/0008_advance.sql`:
const PASS_CANCELLED: &str = "SELECT onceward.pass_cancelled($1, $2)";

/// Messages and the transaction in which they are handled. Dropping it returns all of them.
pub struct QueueTurn(pub(crate) LaneTurn);

impl QueueTurn {
    /// Returns the messages, in the order in which they must be handled.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.0.messages
    }

    /// Returns the messages and the transaction, for a handler that needs both at once.
    pub fn split(&mut self) -> (&[Delivery], &mut Tx) {
        (&self.0.messages, self.0.tx.as_mut().expect("a turn has its transaction until it is settled"))
    }

    /// Settles each delivery and commits. Panics unless there is one settlement per delivery, in the same order.
    pub async fn settle(self, settlements: &[Settlement]) -> Result<(), BusError> {
        assert_eq!(self.0.messages.len(), settlements.len(), "a turn needs one settlement per delivery");
        self.0.finish(Vec::new(), settlements).await
    }
}

/// A turn of a consumer, which handles deliveries, or of the relay, which needs less.
pub(crate) struct LaneTurn<M = Delivery> {
    tx: Option<Tx>,
    picked: PickedLanes,
    lanes: Vec<TurnLane>,
    messages: Vec<M>,
    /// The location of each message.
    locations: Vec<MessageLocation>,
    /// Messages that are not handled, in the order in which they were read: blocked ones, and unreadable ones, which
    /// become dead letters.
    unhandled: Vec<(MessageLocation, Result<M, UnreadableMessage>)>,
    /// The keys, with their lanes, that unreadable messages of this turn hold.
    held_keys: HashSet<(i32, String)>,
    /// The lanes and numbers of messages that were cancelled before they were read.
    cancelled: (Vec<i32>, Vec<i64>),
    /// Lanes that were read but left for another turn.
    left_out: Vec<i32>,
    identity: ConsumerIdentity,
}

/// The part of this turn that concerns one lane.
struct TurnLane {
    head: LaneHead,
    progress: LaneProgress,
    careful_until: i64,
    more: bool,
}

impl<M: TurnMessage> LaneTurn<M> {
    pub(crate) fn new(
        queue: &QueueReader,
        tx: Tx,
        picked: PickedLanes,
        lanes: Vec<LaneRows<M>>,
        per_lane: i32,
    ) -> Self {
        let mut turn = Self {
            tx: Some(tx),
            picked,
            lanes: Vec::new(),
            messages: Vec::new(),
            locations: Vec::new(),
            unhandled: Vec::new(),
            held_keys: HashSet::new(),
            cancelled: Default::default(),
            left_out: Vec::new(),
            identity: queue.identity(),
        };
        let candidates: Vec<LaneCandidate> = lanes.iter().map(candidate).collect();
        let in_turn = isolation::lanes_in_turn(&candidates, || queue.state.prefers_risky());
        for (LaneRows { head, messages }, in_turn) in lanes.into_iter().zip(in_turn) {
            match in_turn {
                true => turn.add_lane(head, messages, usize::try_from(per_lane).unwrap_or(usize::MAX)),
                false => turn.left_out.push(head.lane_id),
            }
        }
        turn
    }

    fn add_lane(&mut self, head: LaneHead, mut messages: Vec<ReadMessage<M>>, per_lane: usize) {
        let newest = messages.iter().map(|message| message.location.seq).max().unwrap_or(0);
        let suspicious = QueueReader::is_suspicious(head.starts);
        let was_careful = was_careful(&head);
        let careful = suspicious || was_careful || move_suspicious_first(&mut messages);
        let careful_until = if suspicious { head.careful_until.max(newest) } else { head.careful_until };
        let more = !messages.is_empty();
        let sources: Vec<MessageSource> = messages.iter().map(|message| message.location.source()).collect();
        let most = if careful { 1 } else { usize::MAX };
        let (count, progress) = head.cursor.take(&sources, per_lane, most);
        messages.truncate(count);
        for message in messages {
            self.add_message(message, QueueReader::starts_alone(head.starts, was_careful));
        }
        self.lanes.push(TurnLane { head, progress, careful_until, more });
    }

    fn add_message(&mut self, ReadMessage { location, message }: ReadMessage<M>, starts_alone: u32) {
        let blocked = location.blocked && self.identity.ordered;
        if location.cancelled {
            self.cancelled.0.push(location.lane_id);
            self.cancelled.1.push(location.seq);
            return;
        }
        match message {
            Err(unreadable) => {
                if let Some(key) = unreadable.ordering_key().filter(|key| self.identity.holds(Some(key))) {
                    self.held_keys.insert((location.lane_id, key.to_owned()));
                }
                self.unhandled.push((location, Err(unreadable)));
            }
            Ok(message) if blocked || self.is_held(&location, &message) => self.unhandled.push((location, Ok(message))),
            Ok(mut message) => {
                message.add_attempts(starts_alone);
                self.locations.push(location);
                self.messages.push(message);
            }
        }
    }

    /// Returns the number of messages to be handled.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns whether an unreadable message earlier in this turn holds the key of this one.
    fn is_held(&self, location: &MessageLocation, message: &M) -> bool {
        // Nearly always empty.
        !self.held_keys.is_empty()
            && message.to_delivery().is_ok_and(|delivery| {
                let key = delivery.ordering_key.clone();
                key.is_some_and(|key| self.held_keys.contains(&(location.lane_id, key)))
            })
    }

    /// Returns the turn if it has messages. Otherwise ends it, after recording what it read.
    pub(crate) async fn or_nothing(self) -> Result<Option<Self>, BusError> {
        if !self.messages.is_empty() {
            return Ok(Some(self));
        }
        if self.unhandled.is_empty() && self.cancelled.0.is_empty() && !self.lanes.iter().any(TurnLane::moves) {
            return Ok(None);
        }
        self.finish(Vec::new(), &[]).await?;
        Ok(None)
    }

    /// Returns the lanes and the numbers of their turns that start with this one.
    pub(crate) fn started_lanes(&self) -> (Vec<i32>, Vec<i64>) {
        self.lanes.iter().map(|lane| (lane.head.lane_id, lane.head.turn + 1)).unzip()
    }

    pub(crate) fn messages(&self) -> &[M] {
        &self.messages
    }

    pub(crate) fn take_messages(&mut self) -> Vec<(MessageLocation, M)> {
        let locations = std::mem::take(&mut self.locations);
        locations.into_iter().zip(std::mem::take(&mut self.messages)).collect()
    }

    pub(crate) fn transaction(&self) -> &Tx {
        self.tx.as_ref().expect("a turn has its transaction until it is settled")
    }

    /// Records the settlement of messages and the new positions of lanes, and commits. `removed` contains messages
    /// taken out of the turn, with their settlements; `settlements` belong to the messages still in it.
    pub(crate) async fn finish(
        mut self,
        removed: Vec<(MessageLocation, M, Settlement)>,
        settlements: &[Settlement],
    ) -> Result<(), BusError> {
        let mut writes = SettlementWrites::default();
        for (location, message, settlement) in &removed {
            writes.add(&self.identity, location, message, settlement);
        }
        for ((location, message), settlement) in self.locations.iter().zip(&self.messages).zip(settlements) {
            writes.add(&self.identity, location, message, settlement);
        }
        for (location, message) in &self.unhandled {
            match message {
                Ok(blocked) => writes.add(&self.identity, location, blocked, &Settlement::Behind),
                Err(unreadable) => writes.add_unreadable(&self.identity, location, unreadable),
            }
        }
        let mut tx = self.tx.take().expect("a turn is finished once");
        writes.run(&tx).await?;
        if !self.cancelled.0.is_empty() {
            tx.query(PASS_CANCELLED, &[&self.cancelled.0, &self.cancelled.1]).await?;
        }
        if M::QUIET && writes.is_empty() {
            // If the server crashes now, the relayed messages are relayed once more.
            tx.queue_statements("SET LOCAL synchronous_commit = off");
        }
        tx.queue_statements(&self.advance_statement());
        tx.commit().await?;
        let mut again: HashSet<i32> =
            self.lanes.iter().filter(|lane| lane.more).map(|lane| lane.head.lane_id).collect();
        again.extend(&self.left_out);
        self.picked.release(|lane| again.contains(&lane));
        if writes.change_deferred() {
            self.picked.queue().poll_now();
        }
        Ok(())
    }

    /// Returns the call that advances the lanes (`migrations/0008_advance.sql`), as text: it consists only of our own
    /// numbers, so it can be sent with the commit.
    fn advance_statement(&self) -> String {
        let mut columns: [String; 6] = Default::default();
        for lane in &self.lanes {
            let cursor = lane.head.cursor.after(&lane.head.snapshot, &lane.progress);
            let separator = if columns[0].is_empty() { "" } else { "," };
            let _ = write!(columns[0], "{separator}{}", lane.head.lane_id);
            let _ = write!(columns[1], "{separator}{}", lane.head.turn + 1);
            let _ = write!(columns[2], "{separator}{}", cursor.last_seq);
            let _ = write!(columns[3], "{separator}\"{}\"", cursor.xids_text());
            let _ = write!(columns[4], "{separator}\"{}\"", cursor.floors_text());
            let _ = write!(columns[5], "{separator}{}", lane.careful_until);
        }
        let [lanes, turns, last_seqs, xids, floors, careful] = columns;
        let function = if self.identity.queue == OUTBOX { "advance_outbox" } else { "advance" };
        format!(
            "SELECT onceward.{function}('{{{lanes}}}', '{{{turns}}}', '{{{last_seqs}}}', '{{{xids}}}', '{{{floors}}}', '{{{careful}}}')"
        )
    }
}

fn was_careful(head: &LaneHead) -> bool {
    head.cursor.last_seq < head.careful_until
}

/// Moves a suspicious deferred message to the front; taking it leaves the others where they are. Returns `false` if
/// none exists.
fn move_suspicious_first<M>(messages: &mut [ReadMessage<M>]) -> bool {
    let at = messages.iter().position(|message| message.location.is_suspicious());
    if let Some(at) = at {
        messages[..=at].rotate_right(1);
    }
    at.is_some()
}

fn candidate<M>(lane: &LaneRows<M>) -> LaneCandidate {
    let careful = QueueReader::is_suspicious(lane.head.starts)
        || was_careful(&lane.head)
        || lane.messages.iter().any(|message| message.location.is_suspicious());
    LaneCandidate { careful, has_messages: !lane.messages.is_empty() }
}

impl TurnLane {
    fn moves(&self) -> bool {
        self.head.cursor.after(&self.head.snapshot, &self.progress) != self.head.cursor
    }
}
