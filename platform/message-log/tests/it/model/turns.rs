//! The actions of workers: take a turn, handle and settle it, or lease its messages.

use super::{
    BrokenRule, Bus,
    state::{DeferredKind, Delivery, Due, LanePosition, Lease, ModelState, Phase, Turn, Worker},
    tables::Redefer,
};
use onceward_message_log::cursor::{LaneCursor, LaneProgress, MessageSource, TransactionSnapshot};

/// As in the bus: followers of a key that a turn releases, and starts that make a turn suspicious.
const RELEASED_FOLLOWERS: usize = 500;
const SUSPICIOUS_STARTS: u8 = 2;

impl Bus {
    /// `onceward.take_turns` and the turn built from it; `None` if the lane has no work.
    pub fn read_turn(&self, state: &ModelState) -> Option<Turn> {
        let (read, position) = state.head();
        let cursor = position.cursor();
        let (mut found, sources) = self.find(state, &cursor, &state.snapshot(None));
        let own_xid = (!found.is_empty()).then_some(state.next_xid);
        let snapshot = match self.broken_rule {
            Some(BrokenRule::TrustsSnapshotList) => state.snapshot(None),
            _ => state.snapshot(own_xid),
        };
        let newest = sources.iter().map(|&(_, seq)| seq).max().unwrap_or(0);
        let suspicious = state.starts >= SUSPICIOUS_STARTS;
        let careful = suspicious || position.last_seq < position.careful_until;
        let sources: Vec<MessageSource> = sources.into_iter().map(|(source, _)| source).collect();
        let most = if careful { 1 } else { usize::MAX };
        let (count, progress) = match self.broken_rule {
            Some(BrokenRule::TakesNewBesideLate) => eager_take(&sources, self.limit),
            _ => cursor.take(&sources, self.limit, most),
        };
        let after = match self.broken_rule {
            Some(BrokenRule::ForgetsOpenTransactions) => {
                let xmax = state.next_xid;
                cursor.after(&TransactionSnapshot { xmax, open: vec![] }, &progress)
            }
            _ => cursor.after(&snapshot, &progress),
        };
        let after = LanePosition {
            last_seq: after.last_seq,
            open: after.open,
            careful_until: if suspicious { position.careful_until.max(newest) } else { position.careful_until },
        };
        if found.is_empty() && (after.last_seq, &after.open) == (position.last_seq, &position.open) {
            return None;
        }
        found.truncate(count);
        let mut turn = Turn { read, own_xid, after, careful, deliveries: Vec::new(), blocked: Vec::new() };
        for mut delivery in found {
            let key_waits = delivery.message.keyed && state.deferred.iter().any(|row| row.message.keyed);
            if delivery.row.is_none() && key_waits {
                turn.blocked.push(delivery);
            } else {
                delivery.attempt += if careful { state.starts } else { 0 };
                turn.deliveries.push(delivery);
            }
        }
        Some(turn)
    }

    /// Finds messages that are deferred and due, late, or new: each with its number, and within the limit.
    fn find(
        &self,
        state: &ModelState,
        cursor: &LaneCursor,
        snapshot: &TransactionSnapshot,
    ) -> (Vec<Delivery>, Vec<(MessageSource, i64)>) {
        let mut deliveries = Vec::new();
        let mut sources = Vec::new();
        for row in state.deferred.iter().filter(|row| row.due == Due::Now).take(self.limit) {
            deliveries.push(Delivery {
                message: row.message,
                late: false,
                attempt: row.attempts + u8::from(row.kind == DeferredKind::Leased) + 1,
                row: Some((row.id, row.lease, row.attempts + u8::from(row.kind == DeferredKind::Leased))),
            });
            sources.push((MessageSource::Deferred, 0));
        }
        let late = state.visible().filter(|entry| {
            let floor = cursor.open.get(&entry.xid);
            entry.seq <= cursor.last_seq
                && floor.is_some_and(|&floor| entry.seq > floor)
                && snapshot.has_ended(entry.xid)
        });
        for entry in late.take(self.limit) {
            let (message, seq) = (entry.message, entry.seq);
            deliveries.push(Delivery { message, late: true, attempt: 1, row: None });
            sources.push((MessageSource::Late { seq }, seq));
        }
        let new = state.visible().filter(|entry| entry.seq > cursor.last_seq);
        for entry in new.take(self.limit) {
            let (message, seq) = (entry.message, entry.seq);
            deliveries.push(Delivery { message, late: false, attempt: 1, row: None });
            sources.push((MessageSource::New { seq }, seq));
        }
        (deliveries, sources)
    }

    /// A transactional turn: effects, settlements and the lane's new position in one commit. Bit n of `successes` means
    /// that delivery n succeeds.
    pub fn commit_turn(&self, state: &mut ModelState, turn: &Turn, successes: u8) {
        if !state.may_advance(turn.read + 1, self.broken_rule == Some(BrokenRule::PrimaryKeyOnly)) {
            return;
        }
        let mut key_waits = false;
        let mut redefer = Vec::new();
        let mut finished = Vec::new();
        for (n, delivery) in turn.deliveries.iter().enumerate() {
            let behind = delivery.message.keyed && key_waits;
            let works = successes & (1 << n) != 0;
            let dead = !works && delivery.attempt >= self.max_attempts;
            if !behind && (works || dead) {
                state.finish(delivery.message, dead);
                finished.extend(delivery.row.map(|(id, ..)| id));
                continue;
            }
            key_waits |= delivery.message.keyed;
            let (kind, due, attempts) = if behind {
                (DeferredKind::Parked, Due::Never, delivery.attempt - 1)
            } else {
                (DeferredKind::Retry, Due::Later, delivery.attempt)
            };
            match delivery.row {
                Some((id, lease, _)) => redefer.push(Redefer { id, kind, due, attempts, lease }),
                None => drop(state.defer(delivery, kind, due, attempts, 0)),
            }
        }
        self.park_and_advance(state, turn);
        state.redefer(&redefer);
        state.settle_deferred(&finished, RELEASED_FOLLOWERS);
    }

    fn park_and_advance(&self, state: &mut ModelState, turn: &Turn) {
        for delivery in &turn.blocked {
            state.defer(delivery, DeferredKind::Parked, Due::Never, 0, 0);
        }
        state.advance(turn.read + 1, turn.after.clone());
    }

    /// A leased turn: all messages are deferred under a lease, but only the first of the key is leased.
    pub fn commit_leases(&self, state: &mut ModelState, turn: &Turn) -> Vec<Lease> {
        let mut leases = Vec::new();
        let mut behind = Vec::new();
        let mut key_taken = false;
        for delivery in &turn.deliveries {
            if delivery.message.keyed && std::mem::replace(&mut key_taken, true) {
                behind.push(delivery);
                continue;
            }
            let (id, number) = match delivery.row {
                Some((id, lease, attempts)) => {
                    let number = lease + 1;
                    state.redefer(&[Redefer {
                        id,
                        kind: DeferredKind::Leased,
                        due: Due::Later,
                        attempts,
                        lease: number,
                    }]);
                    (id, number)
                }
                None => (state.defer(delivery, DeferredKind::Leased, Due::Later, 0, 1), 1),
            };
            let (message, attempt) = (delivery.message, delivery.attempt);
            leases.push(Lease { id, number, message, attempt });
        }
        for delivery in behind {
            match delivery.row {
                None => {
                    state.defer(delivery, DeferredKind::Parked, Due::Never, 0, 0);
                }
                Some((id, lease, attempts)) => {
                    state.redefer(&[Redefer { id, kind: DeferredKind::Parked, due: Due::Never, attempts, lease }])
                }
            }
        }
        self.park_and_advance(state, turn);
        leases
    }

    /// `onceward.end_lease` or `onceward.return_lease`, with the effects in the same transaction.
    pub fn settle_lease(&self, state: &mut ModelState, lease: Lease, works: bool) {
        let guarded = self.broken_rule != Some(BrokenRule::UnguardedLease);
        if guarded && !state.is_current(lease.id, lease.number) {
            return;
        }
        let dead = !works && lease.attempt >= self.max_attempts;
        if works || dead {
            state.finish(lease.message, dead);
            state.settle_deferred(&[lease.id], 1);
        } else {
            state.redefer(&[Redefer {
                id: lease.id,
                kind: DeferredKind::Retry,
                due: Due::Later,
                attempts: lease.attempt,
                lease: lease.number,
            }]);
        }
    }

    /// Ending the lease of a keyed message takes the lane's lock in shared mode, so it waits for a turn's end.
    pub fn may_settle(&self, state: &ModelState, lease: Lease, works: bool) -> bool {
        let ends = works || lease.attempt >= self.max_attempts;
        let waits = lease.message.keyed && ends && state.is_current(lease.id, lease.number);
        !(waits && state.is_lane_locked())
    }

    /// Publishers of the same key run one after the other: the lock is held until the commit.
    pub fn may_publish(&self, state: &ModelState, publisher: usize, sent: usize) -> bool {
        let script = &self.scripts[publisher];
        sent < script.len()
            && (!script[sent].keyed
                || !state.publishers.iter().enumerate().any(|(other, phase)| {
                    other != publisher
                        && matches!(phase, Phase::Open { sent, .. }
                            if self.scripts[other][..*sent].iter().any(|message| message.keyed))
                }))
    }

    /// A worker may begin a turn when no other worker is in the lane; without locks, at any time.
    pub fn may_take(&self, state: &ModelState) -> bool {
        state.workers.contains(&Worker::Idle) && (!self.locks || !state.is_lane_locked())
    }
}

/// A rule that the bus once had: new messages are taken together with only some of the late ones.
fn eager_take(found: &[MessageSource], limit: usize) -> (usize, LaneProgress) {
    let late: Vec<i64> = found
        .iter()
        .filter_map(|source| match source {
            MessageSource::Late { seq } => Some(*seq),
            _ => None,
        })
        .collect();
    let newest = match found.last() {
        Some(&MessageSource::New { seq }) => Some(seq),
        _ => None,
    };
    let late_until = late.last().copied().filter(|_| late.len() >= limit);
    (found.len(), LaneProgress { newest, late_until })
}
