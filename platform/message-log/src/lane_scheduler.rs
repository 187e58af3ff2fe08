//! Which lane is next: tenants take turns, and within a tenant the highest priority is first.
//!
//! A tenant with a million messages waiting has one place in the rotation, like a tenant with one. Lanes of paused tenants
//! are kept outside the rotation until they are resumed.

use onceward_envelope::TenantId;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

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
    /// In the rotation, or paused.
    Ready,
    /// A worker reads it; `true` if it was woken meanwhile.
    Busy(bool),
}

/// The tenants whose lanes are not picked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PausedTenants {
    /// No tenant is paused.
    #[default]
    None,
    /// These tenants are paused.
    Some(HashSet<TenantId>),
    /// The whole queue is paused.
    All,
}

impl PausedTenants {
    fn contains(&self, tenant: &TenantId) -> bool {
        match self {
            Self::None => false,
            Self::Some(tenants) => tenants.contains(tenant),
            Self::All => true,
        }
    }
}

/// Schedules the lanes of one queue that may have work.
#[derive(Debug, Default)]
pub struct LaneScheduler {
    states: HashMap<i32, LaneState>,
    /// Ready lanes of each tenant, lowest priority first.
    ready: HashMap<TenantId, BTreeMap<i16, VecDeque<i32>>>,
    rotation: VecDeque<TenantId>,
    ready_lanes: usize,
    paused: PausedTenants,
    /// Lanes of paused tenants that may have work, in order of their arrival.
    paused_lanes: Vec<Lane>,
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
            None => self.add_ready(lane),
        }
    }

    /// Sets which tenants are paused. Returns `true` if lanes became ready.
    pub fn set_paused(&mut self, paused: PausedTenants) -> bool {
        if self.paused == paused {
            return false;
        }
        self.paused = paused;
        let waiting = std::mem::take(&mut self.paused_lanes);
        let now_paused: Vec<TenantId> =
            self.ready.keys().filter(|tenant| self.paused.contains(tenant)).cloned().collect();
        for tenant in now_paused {
            self.rotation.retain(|other| *other != tenant);
            for (priority, ids) in self.ready.remove(&tenant).into_iter().flatten() {
                self.ready_lanes -= ids.len();
                let lanes = ids.into_iter().map(|id| Lane { id, tenant: tenant.clone(), priority });
                self.paused_lanes.extend(lanes);
            }
        }
        waiting.iter().filter(|lane| self.add_ready(lane)).count() > 0
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
        (more || woken) && self.add_ready(lane)
    }

    /// Returns the number of lanes waiting to be picked.
    pub fn ready_lanes(&self) -> usize {
        self.ready_lanes
    }

    /// Adds a lane that may have work. Returns `false` if its tenant is paused.
    fn add_ready(&mut self, lane: &Lane) -> bool {
        self.states.insert(lane.id, LaneState::Ready);
        if self.paused.contains(&lane.tenant) {
            self.paused_lanes.push(lane.clone());
            return false;
        }
        let lanes = self.ready.entry(lane.tenant.clone()).or_default();
        if lanes.is_empty() {
            self.rotation.push_back(lane.tenant.clone());
        }
        lanes.entry(lane.priority).or_default().push_back(lane.id);
        self.ready_lanes += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(id: i32, tenant: &str) -> Lane {
        Lane { id, tenant: TenantId::new(tenant).unwrap(), priority: 0 }
    }

    fn paused(tenants: &[&str]) -> PausedTenants {
        PausedTenants::Some(tenants.iter().map(|tenant| TenantId::new(*tenant).unwrap()).collect())
    }

    fn picked(scheduler: &mut LaneScheduler) -> Vec<i32> {
        scheduler.pick(10).iter().map(|lane| lane.id).collect()
    }

    #[test]
    fn lanes_of_a_paused_tenant_are_not_picked_until_it_is_resumed() {
        let mut scheduler = LaneScheduler::default();
        assert!([lane(1, "acme"), lane(2, "acme"), lane(3, "globex")].iter().all(|lane| scheduler.wake(lane)));
        assert!(!scheduler.set_paused(paused(&["acme"])));
        assert_eq!((scheduler.ready_lanes(), picked(&mut scheduler)), (1, vec![3]));
        assert!(!scheduler.wake(&lane(4, "acme")), "no reader is woken for a paused tenant");
        assert!(!scheduler.finish(&lane(3, "globex"), false));
        assert!(scheduler.set_paused(PausedTenants::None));
        assert_eq!((scheduler.ready_lanes(), picked(&mut scheduler)), (3, vec![1, 2, 4]));
    }

    #[test]
    fn a_lane_that_was_being_read_when_its_queue_was_paused_is_paused_afterwards() {
        let mut scheduler = LaneScheduler::default();
        scheduler.wake(&lane(1, "acme"));
        assert_eq!(picked(&mut scheduler), [1]);
        scheduler.set_paused(PausedTenants::All);
        scheduler.wake(&lane(1, "acme"));
        assert!(!scheduler.finish(&lane(1, "acme"), true));
        assert!(picked(&mut scheduler).is_empty());
        assert!(scheduler.set_paused(paused(&["globex"])));
        assert_eq!(picked(&mut scheduler), [1]);
    }
}
