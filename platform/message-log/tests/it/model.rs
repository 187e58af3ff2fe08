//! The bus as a model that is checked in every interleaving: publishing, turns, retries, leases, crashes. The bus's own
//! [`cursor`](onceward_message_log::cursor) rules move the lane's position; the tables follow the functions of the
//! migrations.

mod checks;
mod properties;
mod state;
mod tables;
mod turns;

use state::{Due, LogEntry, Message, ModelState, Phase, Worker};
use stateright::{Model, Property};

/// A rule broken on purpose, to verify that the checker notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenRule {
    ForgetsOpenTransactions,
    TrustsSnapshotList,
    TakesNewBesideLate,
    UnguardedLease,
    PrimaryKeyOnly,
}

/// One lane, and the scripts, workers and faults around it.
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
    /// How many times a lease may expire while its worker is alive.
    expiries: u8,
    broken_rule: Option<BrokenRule>,
    reached: Vec<properties::ReachedState>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Begin(usize),
    Publish(usize),
    Commit(usize),
    Abort(usize),
    /// An idle worker locks the lane and reads it.
    Take,
    /// The turn is settled; the bits mark the deliveries that succeeded.
    Settle(usize, u8),
    /// The turn's messages are leased.
    Lease(usize),
    /// The handling of a leased message ended; the flag means success.
    Finish(usize, usize, bool),
    Crash(usize),
    /// A deferred message becomes due, or its lease expires.
    BecomeDue(u8),
}

impl Model for Bus {
    type State = ModelState;
    type Action = Action;

    fn init_states(&self) -> Vec<ModelState> {
        vec![ModelState::new(self.scripts.len(), self.workers, self.crashes, self.expiries)]
    }

    fn actions(&self, state: &ModelState, actions: &mut Vec<Action>) {
        for (publisher, phase) in state.publishers.iter().enumerate() {
            match *phase {
                Phase::Waiting => actions.push(Action::Begin(publisher)),
                Phase::Open { sent, .. } => {
                    actions.push(Action::Abort(publisher));
                    if self.may_publish(state, publisher, sent) {
                        actions.push(Action::Publish(publisher));
                    }
                    if sent == self.scripts[publisher].len() {
                        actions.push(Action::Commit(publisher));
                    }
                }
                Phase::Committed { .. } | Phase::Aborted => {}
            }
        }
        if self.may_take(state) && self.read_turn(state).is_some() {
            actions.push(Action::Take);
        }
        for (n, worker) in state.workers.iter().enumerate() {
            self.worker_actions(state, n, worker, actions);
        }
        for row in state.deferred.iter().filter(|row| row.due == Due::Later) {
            if state.expiries_left > 0 || !state.holds(row.id, row.lease) {
                actions.push(Action::BecomeDue(row.id));
            }
        }
    }

    fn next_state(&self, last: &ModelState, action: Action) -> Option<ModelState> {
        let mut state = last.clone();
        match action {
            Action::Begin(publisher) => {
                let xid = state.next_xid;
                state.next_xid += 1;
                state.publishers[publisher] = Phase::Open { xid, sent: 0 };
            }
            Action::Publish(publisher) => self.publish(&mut state, publisher),
            Action::Commit(publisher) => {
                if let Phase::Open { xid, .. } = state.publishers[publisher] {
                    state.publishers[publisher] = Phase::Committed { xid };
                    state.committed.extend(&self.scripts[publisher]);
                    state.ended(xid);
                }
            }
            Action::Abort(publisher) => {
                if let Phase::Open { xid, .. } = state.publishers[publisher] {
                    state.publishers[publisher] = Phase::Aborted;
                    state.ended(xid);
                }
            }
            Action::BecomeDue(id) => {
                let row = state.deferred.iter_mut().find(|row| row.id == id)?;
                row.due = Due::Now;
                let row = *row;
                state.expiries_left -= u8::from(state.holds(row.id, row.lease));
            }
            action => self.work(&mut state, action)?,
        }
        state.workers.sort();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

impl Bus {
    fn worker_actions(&self, state: &ModelState, n: usize, worker: &Worker, actions: &mut Vec<Action>) {
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
                        if self.may_settle(state, lease, works) {
                            actions.push(Action::Finish(n, l, works));
                        }
                    }
                }
            }
        }
        if state.crashes_left > 0 {
            actions.push(Action::Crash(n));
        }
    }

    fn publish(&self, state: &mut ModelState, publisher: usize) {
        if let Phase::Open { xid, sent } = state.publishers[publisher] {
            let message = self.scripts[publisher][sent];
            let seq = state.log.len() as i64 + 1;
            state.log.push(LogEntry { seq, xid, message });
            state.publishers[publisher] = Phase::Open { xid, sent: sent + 1 };
        }
    }

    fn work(&self, state: &mut ModelState, action: Action) -> Option<()> {
        match action {
            Action::Take => {
                let turn = self.read_turn(state)?;
                state.next_xid += u64::from(turn.own_xid.is_some());
                if !self.leased && !turn.deliveries.is_empty() {
                    state.starts += 1;
                }
                let idle = state.workers.iter().position(|w| *w == Worker::Idle)?;
                state.workers[idle] = Worker::InTurn(turn);
            }
            Action::Settle(n, successes) => {
                let Worker::InTurn(turn) = state.leave(n) else {
                    return None;
                };
                self.commit_turn(state, &turn, successes);
            }
            Action::Lease(n) => {
                let Worker::InTurn(turn) = state.leave(n) else {
                    return None;
                };
                let leases = self.commit_leases(state, &turn);
                state.perform(n, leases);
            }
            Action::Finish(n, l, works) => {
                let Worker::Performing(mut leases) = state.leave(n) else {
                    return None;
                };
                let lease = leases.remove(l);
                self.settle_lease(state, lease, works);
                state.perform(n, leases);
            }
            Action::Crash(n) => {
                state.leave(n);
                state.crashes_left -= 1;
            }
            _ => return None,
        }
        Some(())
    }
}

impl ModelState {
    /// Ends the worker's transaction or process.
    fn leave(&mut self, n: usize) -> Worker {
        let worker = std::mem::replace(&mut self.workers[n], Worker::Idle);
        if let Worker::InTurn(state::Turn { own_xid: Some(xid), .. }) = worker {
            self.ended(xid);
        }
        worker
    }

    fn perform(&mut self, n: usize, leases: Vec<state::Lease>) {
        if !leases.is_empty() {
            self.workers[n] = Worker::Performing(leases);
        }
    }
}
