//! What must always hold, and what must be reachable for the checks to mean something.

use super::{
    Bus,
    world::{Aside, Message, Worker, World},
};
use stateright::{Model, Property};

pub const ONCE: &str = "a message is through once";
pub const NOT_LOST: &str = "when nothing can happen any more, all that was committed is through";
pub const IN_ORDER: &str = "messages of the key are through in the order of their commits";
pub const COMMITTED: &str = "only what was committed is handled";
pub const CALM: &str = "no more turns are taken than there is work for";

/// An interesting situation that a check must have met.
#[derive(Clone, Copy, Debug)]
pub enum Reach {
    Late,
    Parked,
    Careful,
    DeadLetter,
    Fenced,
    Rescued,
    LateFinisher,
}

pub fn of(bus: &Bus) -> Vec<Property<Bus>> {
    let mut all = vec![
        Property::always(ONCE, |_, world: &World| {
            let ids = world.finished.iter().map(|done| done.message.id);
            ids.collect::<std::collections::BTreeSet<_>>().len() == world.finished.len()
        }),
        Property::always(NOT_LOST, |bus: &Bus, world| {
            let through = |message: &Message| world.finished.iter().any(|done| done.message == *message);
            world.committed.iter().all(through) || {
                let mut actions = Vec::new();
                bus.actions(world, &mut actions);
                !actions.is_empty()
            }
        }),
        Property::always(IN_ORDER, |_, world: &World| {
            let finished = world.finished.iter().map(|done| done.message);
            let finished: Vec<Message> = finished.filter(|message| message.keyed).collect();
            let committed = world.committed.iter().copied();
            let committed: Vec<Message> = committed.filter(|message| message.keyed).collect();
            committed.starts_with(&finished)
        }),
        Property::always(COMMITTED, |_, world: &World| {
            world.finished.iter().all(|done| world.committed.contains(&done.message))
        }),
        Property::always(CALM, |_, world: &World| world.head().0 <= 24),
    ];
    all.extend(bus.reaches.iter().map(|reach| reach.property()));
    all
}

impl Reach {
    fn property(self) -> Property<Bus> {
        match self {
            Self::Late => Property::sometimes("a late message is handled", |_, world| {
                in_turn(world, |turn| turn.deliveries.iter().any(|d| d.late))
            }),
            Self::Parked => Property::sometimes("a follower waits behind another", |_, world: &World| {
                world.deferred.iter().any(|row| row.state == Aside::Parked)
            }),
            Self::Careful => Property::sometimes("a turn is handled carefully", |_, world| {
                in_turn(world, |turn| turn.careful && !turn.deliveries.is_empty())
            }),
            Self::DeadLetter => Property::sometimes("a message is buried", |_, world: &World| {
                world.finished.iter().any(|done| done.dead)
            }),
            Self::Fenced => Property::sometimes("a writer will be fenced", |_, world| {
                in_turn(world, |turn| turn.read + 1 < world.head().0)
            }),
            Self::Rescued => Property::sometimes("a lease is rescued", |_, world: &World| {
                world.deferred.iter().any(|row| row.state == Aside::Leased && row.lease > 1)
            }),
            Self::LateFinisher => Property::sometimes("a worker works on under a lost lease", |_, world: &World| {
                world.workers.iter().any(|worker| match worker {
                    Worker::Performing(leases) => leases.iter().any(|lease| !world.is_current(lease.id, lease.number)),
                    _ => false,
                })
            }),
        }
    }
}

fn in_turn(world: &World, is: impl Fn(&super::world::Turn) -> bool) -> bool {
    world.workers.iter().any(|worker| matches!(worker, Worker::InTurn(turn) if is(turn)))
}
