//! What workers do: take a turn, handle and settle it, or lease what it holds.

use super::{
    Bus, Flaw,
    tables::Redefer,
    world::{Aside, Delivery, Due, Lease, Phase, Place, Turn, Worker, World},
};
use onceward_transport_postgres::cursor::{LaneCursor, Snapshot, Source, Taken};

/// As in the bus: followers of a key that a turn lets go, and starts that make a turn suspicious.
const RELEASED_FOLLOWERS: usize = 500;
const SUSPICIOUS_STARTS: u8 = 2;

impl Bus {
    /// `onceward.take_turns` and what is made of it; `None` when there is nothing to do.
    pub fn read_turn(&self, world: &World) -> Option<Turn> {
        let (read, place) = world.head();
        let cursor = place.cursor();
        let (mut found, sources) = self.find(world, &cursor, &world.snapshot(None));
        let own_xid = (!found.is_empty()).then_some(world.next_xid);
        let snapshot = match self.flaw {
            Some(Flaw::TrustsTheList) => world.snapshot(None),
            _ => world.snapshot(own_xid),
        };
        let newest = sources.iter().map(|&(_, seq)| seq).max().unwrap_or(0);
        let suspicious = world.starts >= SUSPICIOUS_STARTS;
        let careful = suspicious || place.last_seq < place.careful_until;
        let sources: Vec<Source> = sources.into_iter().map(|(source, _)| source).collect();
        let most = if careful { 1 } else { usize::MAX };
        let (count, taken) = match self.flaw {
            Some(Flaw::TakesNewBesideLate) => eager_take(&sources, self.limit),
            _ => cursor.take(&sources, self.limit, most),
        };
        let after = match self.flaw {
            Some(Flaw::ForgetsOpenTransactions) => {
                let xmax = world.next_xid;
                cursor.after(&Snapshot { xmax, open: vec![] }, &taken)
            }
            _ => cursor.after(&snapshot, &taken),
        };
        let after = Place {
            last_seq: after.last_seq,
            open: after.open,
            careful_until: if suspicious { place.careful_until.max(newest) } else { place.careful_until },
        };
        if found.is_empty() && (after.last_seq, &after.open) == (place.last_seq, &place.open) {
            return None;
        }
        found.truncate(count);
        let mut turn = Turn { read, own_xid, after, careful, deliveries: Vec::new(), blocked: Vec::new() };
        for mut delivery in found {
            let key_waits = delivery.message.keyed && world.deferred.iter().any(|row| row.message.keyed);
            if delivery.row.is_none() && key_waits {
                turn.blocked.push(delivery);
            } else {
                delivery.attempt += if careful { world.starts } else { 0 };
                turn.deliveries.push(delivery);
            }
        }
        Some(turn)
    }

    /// Put aside and due, late, new: each with its number, and within the limit.
    fn find(&self, world: &World, cursor: &LaneCursor, snapshot: &Snapshot) -> (Vec<Delivery>, Vec<(Source, i64)>) {
        let mut deliveries = Vec::new();
        let mut sources = Vec::new();
        for row in world.deferred.iter().filter(|row| row.due == Due::Now).take(self.limit) {
            deliveries.push(Delivery {
                message: row.message,
                late: false,
                attempt: row.attempts + u8::from(row.state == Aside::Leased) + 1,
                row: Some((row.id, row.lease, row.attempts + u8::from(row.state == Aside::Leased))),
            });
            sources.push((Source::Aside, 0));
        }
        let late = world.visible().filter(|entry| {
            let floor = cursor.open.get(&entry.xid);
            entry.seq <= cursor.last_seq
                && floor.is_some_and(|&floor| entry.seq > floor)
                && snapshot.has_ended(entry.xid)
        });
        for entry in late.take(self.limit) {
            let (message, seq) = (entry.message, entry.seq);
            deliveries.push(Delivery { message, late: true, attempt: 1, row: None });
            sources.push((Source::Late { seq }, seq));
        }
        let new = world.visible().filter(|entry| entry.seq > cursor.last_seq);
        for entry in new.take(self.limit) {
            let (message, seq) = (entry.message, entry.seq);
            deliveries.push(Delivery { message, late: false, attempt: 1, row: None });
            sources.push((Source::New { seq }, seq));
        }
        (deliveries, sources)
    }

    /// A transactional turn: effects, settlements and the lane's new place in one commit. Bit n of
    /// `successes` tells whether delivery n works.
    pub fn commit_turn(&self, world: &mut World, turn: &Turn, successes: u8) {
        if !world.may_advance(turn.read + 1, self.flaw == Some(Flaw::PrimaryKeyOnly)) {
            return;
        }
        let mut key_waits = false;
        let mut redefer = Vec::new();
        let mut through = Vec::new();
        for (n, delivery) in turn.deliveries.iter().enumerate() {
            let behind = delivery.message.keyed && key_waits;
            let works = successes & (1 << n) != 0;
            let dead = !works && delivery.attempt >= self.max_attempts;
            if !behind && (works || dead) {
                world.finish(delivery.message, dead);
                through.extend(delivery.row.map(|(id, ..)| id));
                continue;
            }
            key_waits |= delivery.message.keyed;
            let (state, due, attempts) = if behind {
                (Aside::Parked, Due::Never, delivery.attempt - 1)
            } else {
                (Aside::Retry, Due::Later, delivery.attempt)
            };
            match delivery.row {
                Some((id, lease, _)) => redefer.push(Redefer { id, state, due, attempts, lease }),
                None => drop(world.defer(delivery, state, due, attempts, 0)),
            }
        }
        self.park_and_advance(world, turn);
        world.redefer(&redefer);
        world.settle_deferred(&through, RELEASED_FOLLOWERS);
    }

    fn park_and_advance(&self, world: &mut World, turn: &Turn) {
        for delivery in &turn.blocked {
            world.defer(delivery, Aside::Parked, Due::Never, 0, 0);
        }
        world.advance(turn.read + 1, turn.after.clone());
    }

    /// A leased turn: everything is put aside under a lease, but of the key only the first.
    pub fn commit_leases(&self, world: &mut World, turn: &Turn) -> Vec<Lease> {
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
                    world.redefer(&[Redefer { id, state: Aside::Leased, due: Due::Later, attempts, lease: number }]);
                    (id, number)
                }
                None => (world.defer(delivery, Aside::Leased, Due::Later, 0, 1), 1),
            };
            let (message, attempt) = (delivery.message, delivery.attempt);
            leases.push(Lease { id, number, message, attempt });
        }
        for delivery in behind {
            match delivery.row {
                None => {
                    world.defer(delivery, Aside::Parked, Due::Never, 0, 0);
                }
                Some((id, lease, attempts)) => {
                    world.redefer(&[Redefer { id, state: Aside::Parked, due: Due::Never, attempts, lease }])
                }
            }
        }
        self.park_and_advance(world, turn);
        leases
    }

    /// `onceward.end_lease` or `onceward.return_lease`, with the effects in the same transaction.
    pub fn settle_lease(&self, world: &mut World, lease: Lease, works: bool) {
        let guarded = self.flaw != Some(Flaw::UnguardedLease);
        if guarded && !world.is_current(lease.id, lease.number) {
            return;
        }
        let dead = !works && lease.attempt >= self.max_attempts;
        if works || dead {
            world.finish(lease.message, dead);
            world.settle_deferred(&[lease.id], 1);
        } else {
            world.redefer(&[Redefer {
                id: lease.id,
                state: Aside::Retry,
                due: Due::Later,
                attempts: lease.attempt,
                lease: lease.number,
            }]);
        }
    }

    /// Ending the lease of a keyed message shares the lane's lock, so it waits for a turn's end.
    pub fn may_settle(&self, world: &World, lease: Lease, works: bool) -> bool {
        let ends = works || lease.attempt >= self.max_attempts;
        let waits = lease.message.keyed && ends && world.is_current(lease.id, lease.number);
        !(waits && world.somebody_is_in_the_lane())
    }

    /// Publishers of the same key come one after the other: the lock is held to the commit.
    pub fn may_publish(&self, world: &World, publisher: usize, sent: usize) -> bool {
        let script = &self.scripts[publisher];
        sent < script.len()
            && (!script[sent].keyed
                || !world.publishers.iter().enumerate().any(|(other, phase)| {
                    other != publisher
                        && matches!(phase, Phase::Open { sent, .. }
                            if self.scripts[other][..*sent].iter().any(|message| message.keyed))
                }))
    }

    /// A worker may begin a turn when nobody is in the lane; without locks, at any time.
    pub fn may_take(&self, world: &World) -> bool {
        world.workers.contains(&Worker::Idle) && (!self.locks || !world.somebody_is_in_the_lane())
    }
}

/// A rule that was once in the bus: new messages are taken beside a part of the late ones.
fn eager_take(found: &[Source], limit: usize) -> (usize, Taken) {
    let late: Vec<i64> = found
        .iter()
        .filter_map(|source| match source {
            Source::Late { seq } => Some(*seq),
            _ => None,
        })
        .collect();
    let newest = match found.last() {
        Some(&Source::New { seq }) => Some(seq),
        _ => None,
    };
    let late_until = late.last().copied().filter(|_| late.len() >= limit);
    (found.len(), Taken { newest, late_until })
}
