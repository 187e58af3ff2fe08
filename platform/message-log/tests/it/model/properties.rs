//! The properties that must always hold, and the states that must be reachable for the checks to be meaningful.

use super::{
    Bus,
    state::{DeferredKind, Message, ModelState, Worker},
};
use stateright::{Model, Property};

pub const ONCE: &str = "a message is finished once";
pub const NOT_LOST: &str = "when no action is possible any more, every committed message is finished";
pub const IN_ORDER: &str = "messages of the key are finished in the order of their commits";
pub const COMMITTED: &str = "only committed messages are handled";
pub const BOUNDED: &str = "the number of turns is bounded by the work";

/// An interesting situation that a check must reach.
#[derive(Clone, Copy, Debug)]
pub enum ReachedState {
    Late,
    Parked,
    Careful,
    DeadLetter,
    Refused,
    TakenOver,
    LateFinisher,
}

pub fn of(bus: &Bus) -> Vec<Property<Bus>> {
    let mut all = vec![
        Property::always(ONCE, |_, state: &ModelState| {
            let ids = state.finished.iter().map(|done| done.message.id);
            ids.collect::<std::collections::BTreeSet<_>>().len() == state.finished.len()
        }),
        Property::always(NOT_LOST, |bus: &Bus, state| {
            let is_finished = |message: &Message| state.finished.iter().any(|done| done.message == *message);
            state.committed.iter().all(is_finished) || {
                let mut actions = Vec::new();
                bus.actions(state, &mut actions);
                !actions.is_empty()
            }
        }),
        Property::always(IN_ORDER, |_, state: &ModelState| {
            let finished = state.finished.iter().map(|done| done.message);
            let finished: Vec<Message> = finished.filter(|message| message.keyed).collect();
            let committed = state.committed.iter().copied();
            let committed: Vec<Message> = committed.filter(|message| message.keyed).collect();
            committed.starts_with(&finished)
        }),
        Property::always(COMMITTED, |_, state: &ModelState| {
            state.finished.iter().all(|done| state.committed.contains(&done.message))
        }),
        Property::always(BOUNDED, |_, state: &ModelState| state.head().0 <= 24),
    ];
    all.extend(bus.reached.iter().map(|reach| reach.property()));
    all
}

impl ReachedState {
    fn property(self) -> Property<Bus> {
        match self {
            Self::Late => Property::sometimes("a late message is handled", |_, state| {
                in_turn(state, |turn| turn.deliveries.iter().any(|d| d.late))
            }),
            Self::Parked => Property::sometimes("a follower waits behind another", |_, state: &ModelState| {
                state.deferred.iter().any(|row| row.kind == DeferredKind::Parked)
            }),
            Self::Careful => Property::sometimes("a turn is handled carefully", |_, state| {
                in_turn(state, |turn| turn.careful && !turn.deliveries.is_empty())
            }),
            Self::DeadLetter => Property::sometimes("a message becomes a dead letter", |_, state: &ModelState| {
                state.finished.iter().any(|done| done.dead)
            }),
            Self::Refused => Property::sometimes("a writer will be refused", |_, state| {
                in_turn(state, |turn| turn.read + 1 < state.head().0)
            }),
            Self::TakenOver => Property::sometimes("an expired lease is taken over", |_, state: &ModelState| {
                state.deferred.iter().any(|row| row.kind == DeferredKind::Leased && row.lease > 1)
            }),
            Self::LateFinisher => {
                Property::sometimes("a worker continues under a lost lease", |_, state: &ModelState| {
                    state.workers.iter().any(|worker| match worker {
                        Worker::Performing(leases) => {
                            leases.iter().any(|lease| !state.is_current(lease.id, lease.number))
                        }
                        _ => false,
                    })
                })
            }
        }
    }
}

fn in_turn(state: &ModelState, is: impl Fn(&super::state::Turn) -> bool) -> bool {
    state.workers.iter().any(|worker| matches!(worker, Worker::InTurn(turn) if is(turn)))
}
