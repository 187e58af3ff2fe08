//! Which lane is next: tenants in turn, and within a tenant the highest priority first.
//!
//! A tenant with a million messages waiting has one place in the rotation, like a tenant with one.

use onceward_envelope::TenantId;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A lane as the book knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its number in the database.
    pub id: i32,
    /// Whose messages it holds.
    pub tenant: TenantId,
    /// Higher goes first.
    pub priority: i16,
}

impl Lane {
    /// The priority of its messages.
    pub(crate) fn message_priority(&self) -> u8 {
        self.priority.clamp(0, 9).unsigned_abs() as u8
    }
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// In the rotation.
    Hot,
    /// Being worked in; `true`: woken meanwhile.
    Busy(bool),
}

/// The lanes of one queue in which there may be something to do.
#[derive(Debug, Default)]
pub struct LaneBook {
    states: HashMap<i32, State>,
    /// Hot lanes of each tenant, lowest priority first.
    hot: HashMap<TenantId, BTreeMap<i16, VecDeque<i32>>>,
    rotation: VecDeque<TenantId>,
    hot_lanes: usize,
}

impl LaneBook {
    /// There may be something in this lane. `true`: the book did not know.
    pub fn wake(&mut self, lane: &Lane) -> bool {
        match self.states.get_mut(&lane.id) {
            Some(State::Hot) => false,
            Some(State::Busy(woken)) => {
                *woken = true;
                false
            }
            None => {
                self.heat(lane);
                true
            }
        }
    }

    /// Takes up to `most` lanes to work in, each tenant's first before any tenant's second.
    pub fn pick(&mut self, most: usize) -> Vec<Lane> {
        let mut picked = Vec::new();
        while picked.len() < most {
            let Some(tenant) = self.rotation.pop_front() else {
                break;
            };
            let priorities = self.hot.get_mut(&tenant).expect("a tenant in the rotation has hot lanes");
            let mut highest = priorities.last_entry().expect("and at least one priority");
            let priority = *highest.key();
            let id = highest.get_mut().pop_front().expect("with at least one lane");
            if highest.get().is_empty() {
                highest.remove();
            }
            if priorities.is_empty() {
                self.hot.remove(&tenant);
            } else {
                self.rotation.push_back(tenant.clone());
            }
            self.hot_lanes -= 1;
            self.states.insert(id, State::Busy(false));
            picked.push(Lane { id, tenant, priority });
        }
        picked
    }

    /// The work in this lane ended; `more`: there may be more of it. `true`: the lane is hot again.
    pub fn finish(&mut self, lane: &Lane, more: bool) -> bool {
        let woken = matches!(self.states.remove(&lane.id), Some(State::Busy(true)));
        if more || woken {
            self.heat(lane);
        }
        more || woken
    }

    /// How many lanes wait to be picked.
    pub fn hot(&self) -> usize {
        self.hot_lanes
    }

    fn heat(&mut self, lane: &Lane) {
        self.states.insert(lane.id, State::Hot);
        let lanes = self.hot.entry(lane.tenant.clone()).or_default();
        if lanes.is_empty() {
            self.rotation.push_back(lane.tenant.clone());
        }
        lanes.entry(lane.priority).or_default().push_back(lane.id);
        self.hot_lanes += 1;
    }
}
