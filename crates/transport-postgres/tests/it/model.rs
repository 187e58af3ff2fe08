//! The bus as a model that is checked in every interleaving: publishing, turns, retries, leases,
//! crashes. The lane's place is moved by the bus's own [`cursor`](onceward_transport_postgres::cursor)
//! rules; the tables follow the functions of the migrations.

mod checks;
mod properties;
mod tables;
mod turns;
mod world;

use stateright::{Model, Property};
use world::{Due, Entry, Message, Phase, Worker, World};

/// A rule broken on purpose, to see that the checker notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    ForgetsOpenTransactions,
    TrustsTheList,
    TakesNewBesideLate,
    UnguardedLease,
    PrimaryKeyOnly,
}

/// One lane, with what is to happen around it.
#[derive(Clone, Debug)]
pub struct Bus {
    scripts: Vec<Vec<Message>>,
    workers: usize,
    /// How many messages of each kind a turn reads.
    limit: usize,
    max_attempts: u8,
    leased: bool,
    /// Whether a turn holds the lane's lock.
    locks: bool,
    crashes: u8,
    /// How often a lease may run out while its worker lives.
    expiries: u8,
    flaw: Option<Flaw>,
    reaches: Vec<properties::Reach>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Begin(usize),
    Publish(usize),
    Commit(usize),
    Abort(usize),
    /// An idle worker locks the lane and reads it.
    Take,
    /// The turn is settled; the bits tell which deliveries worked.
    Settle(usize, u8),
    /// The turn's messages are leased.
    Lease(usize),
    /// A leased message was performed: with success or without.
    Finish(usize, usize, bool),
    Crash(usize),
    /// The time of a message put aside has come, or its lease runs out.
    Ripen(u8),
}

impl Model for Bus {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.scripts.len(), self.workers, self.crashes, self.expiries)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (publisher, phase) in world.publishers.iter().enumerate() {
            match *phase {
                Phase::Waiting => actions.push(Action::Begin(publisher)),
                Phase::Open { sent, .. } => {
                    actions.push(Action::Abort(publisher));
                    if self.may_publish(world, publisher, sent) {
                        actions.push(Action::Publish(publisher));
                    }
                    if sent == self.scripts[publisher].len() {
                        actions.push(Action::Commit(publisher));
                    }
                }
                Phase::Committed { .. } | Phase::Aborted => {}
            }
        }
        if self.may_take(world) && self.read_turn(world).is_some() {
            actions.push(Action::Take);
        }
        for (n, worker) in world.workers.iter().enumerate() {
            self.worker_actions(world, n, worker, actions);
        }
        for row in world.deferred.iter().filter(|row| row.due == Due::Later) {
            if world.expiries_left > 0 || !world.holds(row.id, row.lease) {
                actions.push(Action::Ripen(row.id));
            }
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Begin(publisher) => {
                let xid = world.next_xid;
                world.next_xid += 1;
                world.publishers[publisher] = Phase::Open { xid, sent: 0 };
            }
            Action::Publish(publisher) => self.publish(&mut world, publisher),
            Action::Commit(publisher) => {
                if let Phase::Open { xid, .. } = world.publishers[publisher] {
                    world.publishers[publisher] = Phase::Committed { xid };
                    world.committed.extend(&self.scripts[publisher]);
                    world.ended(xid);
                }
            }
            Action::Abort(publisher) => {
                if let Phase::Open { xid, .. } = world.publishers[publisher] {
                    world.publishers[publisher] = Phase::Aborted;
                    world.ended(xid);
                }
            }
            Action::Ripen(id) => {
                let row = world.deferred.iter_mut().find(|row| row.id == id)?;
                row.due = Due::Now;
                let row = *row;
                world.expiries_left -= u8::from(world.holds(row.id, row.lease));
            }
            action => self.work(&mut world, action)?,
        }
        world.workers.sort();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

impl Bus {
    fn worker_actions(&self, world: &World, n: usize, worker: &Worker, actions: &mut Vec<Action>) {
        match worker {
            Worker::Idle => return,
            Worker::InTurn(_) if self.leased => actions.push(Action::Lease(n)),
            Worker::InTurn(turn) => {
                let outcomes = 1 << turn.deliveries.len();
                actions.extend((0..outcomes).map(|successes| Action::Settle(n, successes)));
            }
            Worker::Performing(leases) => {
                for (l, &lease) in leases.iter().enumerate() {
                    for works in [true, false] {
                        if self.may_settle(world, lease, works) {
                            actions.push(Action::Finish(n, l, works));
                        }
                    }
                }
            }
        }
        if world.crashes_left > 0 {
            actions.push(Action::Crash(n));
        }
    }

    fn publish(&self, world: &mut World, publisher: usize) {
        if let Phase::Open { xid, sent } = world.publishers[publisher] {
            let message = self.scripts[publisher][sent];
            let seq = world.log.len() as i64 + 1;
            world.log.push(Entry { seq, xid, message });
            world.publishers[publisher] = Phase::Open { xid, sent: sent + 1 };
        }
    }

    fn work(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Take => {
                let turn = self.read_turn(world)?;
                world.next_xid += u64::from(turn.own_xid.is_some());
                if !self.leased && !turn.deliveries.is_empty() {
                    world.starts += 1;
                }
                let idle = world.workers.iter().position(|w| *w == Worker::Idle)?;
                world.workers[idle] = Worker::InTurn(turn);
            }
            Action::Settle(n, successes) => {
                let Worker::InTurn(turn) = world.leave(n) else {
                    return None;
                };
                self.commit_turn(world, &turn, successes);
            }
            Action::Lease(n) => {
                let Worker::InTurn(turn) = world.leave(n) else {
                    return None;
                };
                let leases = self.commit_leases(world, &turn);
                world.perform(n, leases);
            }
            Action::Finish(n, l, works) => {
                let Worker::Performing(mut leases) = world.leave(n) else {
                    return None;
                };
                let lease = leases.remove(l);
                self.settle_lease(world, lease, works);
                world.perform(n, leases);
            }
            Action::Crash(n) => {
                world.leave(n);
                world.crashes_left -= 1;
            }
            _ => return None,
        }
        Some(())
    }
}

impl World {
    /// The worker's transaction or process is over.
    fn leave(&mut self, n: usize) -> Worker {
        let worker = std::mem::replace(&mut self.workers[n], Worker::Idle);
        if let Worker::InTurn(world::Turn { own_xid: Some(xid), .. }) = worker {
            self.ended(xid);
        }
        worker
    }

    fn perform(&mut self, n: usize, leases: Vec<world::Lease>) {
        if !leases.is_empty() {
            self.workers[n] = Worker::Performing(leases);
        }
    }
}
