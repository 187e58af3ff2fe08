//! Which lane is next: tenants take turns, and within a tenant the highest priority is first.
//!
//! A tenant with a million messages waiting has one place in the rotation, like a tenant with one.

use onceward_envelope::TenantId;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A lane as [`LaneScheduler`] knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its number in the database.
    pub id: i32,
    /// The tenant of its messages.
    pub tenant: TenantId,
    /// The priority; higher goes first.
    pub priority: i16,
}

impl Lane {
    /// Returns the priority of its messages.
    pub(crate) fn message_priority(&self) -> u8 {
        self.priority.clamp(0, 9).unsigned_abs() as u8
    }
}

#[derive(Debug, PartialEq, Eq)]
enum LaneState {
    /// In the rotation.
    Ready,
    /// A worker reads it; `true` if it was woken meanwhile.
    Busy(bool),
}

/// Schedules the lanes of one queue that may have work.
#[derive(Debug, Default)]
pub struct LaneScheduler {
    states: HashMap<i32, LaneState>,
    /// Ready lanes of each tenant, lowest priority first.
    ready: HashMap<TenantId, BTreeMap<i16, VecDeque<i32>>>,
    rotation: VecDeque<TenantId>,
    ready_lanes: usize,
}

impl LaneScheduler {
    /// Records that this lane may have work. Returns `true` if the lane became ready.
    pub fn wake(&mut self, lane: &Lane) -> bool {
        match self.states.get_mut(&lane.id) {
            Some(LaneState::Ready) => false,
            Some(LaneState::Busy(woken)) => {
                *woken = true;
                false
            }
            None => {
                self.add_ready(lane);
                true
            }
        }
    }

    /// Takes up to `most` lanes to work in: every tenant's first before any tenant's second.
    pub fn pick(&mut self, most: usize) -> Vec<Lane> {
        let mut picked = Vec::new();
        while picked.len() < most {
            let Some(tenant) = self.rotation.pop_front() else {
                break;
            };
            let priorities = self.ready.get_mut(&tenant).expect("a tenant in the rotation has ready lanes");
            let mut highest = priorities.last_entry().expect("a tenant with ready lanes has a priority");
            let priority = *highest.key();
            let id = highest.get_mut().pop_front().expect("a priority has at least one lane");
            if highest.get().is_empty() {
                highest.remove();
            }
            if priorities.is_empty() {
                self.ready.remove(&tenant);
            } else {
                self.rotation.push_back(tenant.clone());
            }
            self.ready_lanes -= 1;
            self.states.insert(id, LaneState::Busy(false));
            picked.push(Lane { id, tenant, priority });
        }
        picked
    }

    /// Ends the work in this lane; `more` means that it may have more work. Returns `true` if the lane is ready again.
    pub fn finish(&mut self, lane: &Lane, more: bool) -> bool {
        let woken = matches!(self.states.remove(&lane.id), Some(LaneState::Busy(true)));
        if more || woken {
            self.add_ready(lane);
        }
        more || woken
    }

    /// Returns the number of lanes waiting to be picked.
    pub fn ready_lanes(&self) -> usize {
        self.ready_lanes
    }

    fn add_ready(&mut self, lane: &Lane) {
        self.states.insert(lane.id, LaneState::Ready);
        let lanes = self.ready.entry(lane.tenant.clone()).or_default();
        if lanes.is_empty() {
            self.rotation.push_back(lane.tenant.clone());
        }
        lanes.entry(lane.priority).or_default().push_back(lane.id);
        self.ready_lanes += 1;
    }
}
