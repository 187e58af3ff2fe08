//! A turn: messages of some lanes, handled and settled in one transaction.

use crate::{
    cursor::{Source, Taken},
    queue::{LaneGuard, LaneQueue},
    rows::{self, Found, LaneHead, Place, Read, Unreadable},
    store,
};
use async_trait::async_trait;
use onceward_db::{DbError, Tx};
use onceward_transport::{DeadReason, Delivery, Settlement, TransportError, Turn};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
};

/// How many followers of a key become due when the message before them is through.
const RELEASED_FOLLOWERS: i32 = 500;

pub(crate) struct LaneTurn {
    tx: Option<Tx>,
    guard: LaneGuard,
    lanes: Vec<LanePart>,
    deliveries: Vec<Delivery>,
    places: Vec<Place>,
    blocked: Vec<(Place, Delivery)>,
    unreadable: Vec<(Place, Unreadable)>,
    identity: Identity,
}

/// Who handles, for dead letters.
#[derive(Clone)]
pub(crate) struct Identity {
    pub queue: String,
    pub consumer: String,
    pub dead_letter_queue: Option<String>,
    pub ordered: bool,
}

/// What this turn takes out of one lane.
struct LanePart {
    head: LaneHead,
    taken: Taken,
    careful_until: i64,
    more: bool,
}

impl LaneTurn {
    pub(crate) fn new(
        queue: &LaneQueue,
        tx: Tx,
        guard: LaneGuard,
        read: Read,
        per_lane: i32,
    ) -> Self {
        let mut by_lane: HashMap<i32, Vec<Found>> = HashMap::new();
        for message in read.found {
            by_lane
                .entry(message.place.lane_id)
                .or_default()
                .push(message);
        }
        let mut turn = Self {
            tx: Some(tx),
            guard,
            lanes: Vec::new(),
            deliveries: Vec::new(),
            places: Vec::new(),
            blocked: Vec::new(),
            unreadable: Vec::new(),
            identity: queue.identity(),
        };
        for head in read.heads {
            let lane_id = head.lane_id;
            let mut found = by_lane.remove(&lane_id).unwrap_or_default();
            let tenant = turn.guard.tenant(lane_id).cloned();
            for delivery in found
                .iter_mut()
                .filter_map(|found| found.message.as_mut().ok())
            {
                delivery.queue_tenant = tenant
                    .clone()
                    .unwrap_or_else(|| delivery.queue_tenant.clone());
            }
            turn.add_lane(head, found, usize::try_from(per_lane).unwrap_or(usize::MAX));
        }
        turn
    }

    fn add_lane(&mut self, head: LaneHead, mut found: Vec<Found>, per_lane: usize) {
        let newest = found
            .iter()
            .map(|message| message.place.seq)
            .max()
            .unwrap_or(0);
        let suspicious = LaneQueue::is_suspicious(head.starts);
        let careful = suspicious || head.cursor.last_seq < head.careful_until;
        let careful_until = if suspicious {
            head.careful_until.max(newest)
        } else {
            head.careful_until
        };
        let more = !found.is_empty();
        let sources: Vec<Source> = found.iter().map(|message| message.place.source()).collect();
        let most = if careful { 1 } else { usize::MAX };
        let (count, taken) = head.cursor.take(&sources, per_lane, most);
        found.truncate(count);
        for message in found {
            self.add_message(message, head.starts, careful);
        }
        self.lanes.push(LanePart {
            head,
            taken,
            careful_until,
            more,
        });
    }

    fn add_message(&mut self, found: Found, starts: i32, careful: bool) {
        let blocked = found.place.blocked && self.identity.ordered;
        match found.message {
            Err(unreadable) => self.unreadable.push((found.place, unreadable)),
            Ok(delivery) if blocked => self.blocked.push((found.place, delivery)),
            Ok(mut delivery) => {
                if careful {
                    delivery.attempt += starts.unsigned_abs();
                }
                self.places.push(found.place);
                self.deliveries.push(delivery);
            }
        }
    }

    /// Ends a turn that has nothing to hand out, after writing down what it learnt.
    pub(crate) async fn or_nothing(self) -> Result<Option<Self>, TransportError> {
        if !self.deliveries.is_empty() {
            return Ok(Some(self));
        }
        if self.blocked.is_empty()
            && self.unreadable.is_empty()
            && !self.lanes.iter().any(LanePart::moves)
        {
            return Ok(None);
        }
        self.finish(Vec::new()).await?;
        Ok(None)
    }

    pub(crate) fn started_lanes(&self) -> (String, String) {
        let text = |numbers: Vec<String>| format!("{{{}}}", numbers.join(","));
        (
            text(
                self.lanes
                    .iter()
                    .map(|part| part.head.lane_id.to_string())
                    .collect(),
            ),
            text(
                self.lanes
                    .iter()
                    .map(|part| (part.head.turn + 1).to_string())
                    .collect(),
            ),
        )
    }

    pub(crate) fn take_messages(&mut self) -> Vec<(Place, Delivery)> {
        let places = std::mem::take(&mut self.places);
        places
            .into_iter()
            .zip(std::mem::take(&mut self.deliveries))
            .collect()
    }

    pub(crate) fn transaction(&self) -> &Tx {
        self.tx
            .as_ref()
            .expect("a turn has its transaction until it is settled")
    }

    /// Writes what becomes of `settled` and of the lanes, and commits.
    pub(crate) async fn finish(
        mut self,
        settled: Vec<(Place, Delivery, Settlement)>,
    ) -> Result<(), TransportError> {
        let mut writes = Writes::default();
        for (place, delivery, settlement) in &settled {
            writes.add(&self.identity, place, delivery, settlement);
        }
        for (place, delivery) in &self.blocked {
            writes.add(&self.identity, place, delivery, &Settlement::Behind);
        }
        for (place, unreadable) in &self.unreadable {
            writes.bury_unreadable(&self.identity, place, unreadable);
        }
        let mut tx = self.tx.take().expect("a turn is finished once");
        writes.run(&tx).await?;
        tx.queue_statements(&self.advance_statement());
        tx.commit().await?;
        let again: HashSet<i32> = self
            .lanes
            .iter()
            .filter(|part| part.more)
            .map(|part| part.head.lane_id)
            .collect();
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
        format!(
            "SELECT onceward.advance('{{{lanes}}}', '{{{turns}}}', '{{{last_seqs}}}', '{{{xids}}}', '{{{floors}}}', '{{{careful}}}')"
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
        &self.deliveries
    }

    fn tx(&mut self) -> &mut Tx {
        self.tx
            .as_mut()
            .expect("a turn has its transaction until it is settled")
    }

    fn split(&mut self) -> (&[Delivery], &mut Tx) {
        (
            &self.deliveries,
            self.tx
                .as_mut()
                .expect("a turn has its transaction until it is settled"),
        )
    }

    async fn settle(
        mut self: Box<Self>,
        settlements: Vec<Settlement>,
    ) -> Result<(), TransportError> {
        assert_eq!(
            self.deliveries.len(),
            settlements.len(),
            "one settlement for each delivery"
        );
        let settled = self
            .take_messages()
            .into_iter()
            .zip(settlements)
            .map(|((place, delivery), settlement)| (place, delivery, settlement))
            .collect();
        self.finish(settled).await
    }
}

/// What a turn writes beside its lanes' places; nothing at all when all went well.
#[derive(Default)]
pub(crate) struct Writes {
    pub defer: Vec<Value>,
    pub redefer: Vec<Value>,
    through: Vec<i64>,
    bury: Vec<Value>,
}

impl Writes {
    pub(crate) fn add(
        &mut self,
        identity: &Identity,
        place: &Place,
        delivery: &Delivery,
        settlement: &Settlement,
    ) {
        let attempts = i32::try_from(delivery.attempt).unwrap_or(i32::MAX);
        match settlement {
            Settlement::Done => self
                .through
                .extend(place.deferred.as_ref().map(|row| row.id)),
            Settlement::Retry { after, error } => {
                self.aside(
                    place,
                    delivery,
                    json!({"state": "retry", "due_in_ms": after.as_millis() as u64,
                    "blocks": identity.ordered, "attempts": attempts, "last_error": error}),
                );
            }
            Settlement::Wait { after, reason } => {
                self.aside(
                    place,
                    delivery,
                    json!({"state": "waiting", "due_in_ms": after.as_millis() as u64,
                    "blocks": identity.ordered, "attempts": attempts - 1, "last_error": reason}),
                );
            }
            Settlement::Behind => {
                self.aside(
                    place,
                    delivery,
                    json!({"state": "parked", "due_in_ms": null, "blocks": true,
                    "attempts": attempts - 1, "last_error": null}),
                );
            }
            Settlement::Dead { reason, error } => {
                self.bury
                    .push(dead_letter(identity, delivery, *reason, error));
                self.through
                    .extend(place.deferred.as_ref().map(|row| row.id));
            }
        }
    }

    fn aside(&mut self, place: &Place, delivery: &Delivery, mut row: Value) {
        row["lease"] = place.deferred.as_ref().map_or(0, |row| row.lease).into();
        match &place.deferred {
            Some(deferred) => {
                row["id"] = deferred.id.into();
                self.redefer.push(row);
            }
            None => self.defer.push(new_deferred(place, delivery, row)),
        }
    }

    fn bury_unreadable(&mut self, identity: &Identity, place: &Place, unreadable: &Unreadable) {
        let raw = &unreadable.raw;
        self.bury.push(json!({
            "event_id": raw["id"], "tenant_id": raw["tenant_id"], "queue": identity.queue, "consumer": identity.consumer,
            "dead_letter_queue": identity.dead_letter_queue, "event_type": raw["event_type"], "version": raw["version"],
            "ordering_key": raw["ordering_key"], "correlation_id": raw["correlation_id"],
            "reason": DeadReason::Malformed.as_str(), "attempts": 0, "last_error": unreadable.error, "message": raw,
        }));
        self.through
            .extend(place.deferred.as_ref().map(|row| row.id));
    }

    pub(crate) fn puts_aside(&self) -> bool {
        !(self.defer.is_empty() && self.redefer.is_empty() && self.through.is_empty())
    }

    /// In this order: whoever failed must be seen to wait before its followers are considered.
    pub(crate) async fn run(&self, tx: &Tx) -> Result<(), DbError> {
        if !self.defer.is_empty() {
            tx.query(store::DEFER, &[&Value::from(self.defer.clone())])
                .await?;
        }
        if !self.redefer.is_empty() {
            tx.query(store::REDEFER, &[&Value::from(self.redefer.clone())])
                .await?;
        }
        if !self.bury.is_empty() {
            tx.query(store::BURY, &[&Value::from(self.bury.clone())])
                .await?;
        }
        if !self.through.is_empty() {
            tx.query(
                store::SETTLE_DEFERRED,
                &[&self.through, &RELEASED_FOLLOWERS],
            )
            .await?;
        }
        Ok(())
    }
}

/// A new row for `onceward.defer`: the common columns and those of `row`.
pub(crate) fn new_deferred(place: &Place, delivery: &Delivery, mut row: Value) -> Value {
    if row["first_error"].is_null() {
        row["first_error"] = row["last_error"].clone();
    }
    if !row["last_error"].is_null() {
        row["first_failed_at"] = json!(
            delivery
                .first_failed_at
                .unwrap_or_else(jiff::Timestamp::now)
        );
    }
    row["lane_id"] = place.lane_id.into();
    row["seq"] = place.seq.into();
    row["ordering_key"] = json!(delivery.ordering_key);
    row["created_at"] = json!(delivery.published_at);
    row["message"] = rows::stored(delivery);
    row
}

pub(crate) fn dead_letter(
    identity: &Identity,
    delivery: &Delivery,
    reason: DeadReason,
    error: &str,
) -> Value {
    let envelope = &delivery.envelope;
    json!({
        "event_id": envelope.event_id, "tenant_id": delivery.queue_tenant, "queue": identity.queue,
        "consumer": identity.consumer, "dead_letter_queue": identity.dead_letter_queue,
        "event_type": envelope.event_type.name(), "version": envelope.event_type.version(),
        "ordering_key": delivery.ordering_key, "correlation_id": envelope.correlation_id, "reason": reason.as_str(),
        "attempts": delivery.attempt, "first_error": delivery.first_error.as_deref().unwrap_or(error), "last_error": error,
        "first_failed_at": delivery.first_failed_at, "message": rows::stored(delivery),
    })
}
