//! Properties of the lane scheduler: fairness, exclusiveness, priorities, and that no lane is forgotten.

use onceward_envelope::TenantId;
use onceward_message_log::lane_scheduler::{Lane, LaneScheduler};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Event {
    Wake(usize),
    Pick(usize),
    /// The nth busy lane is finished; the flag means that it may have more work.
    Finish(usize, bool),
}

fn event(lanes: usize) -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..lanes).prop_map(Event::Wake),
        2 => (1..5_usize).prop_map(Event::Pick),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(nth, more)| Event::Finish(nth, more)),
    ]
}

/// Some lanes, unevenly spread over tenants and priorities, and a sequence of events.
fn cases() -> impl Strategy<Value = (Vec<Lane>, Vec<Event>)> {
    let lane = (prop_oneof![3 => Just(0_u8), 2 => 1..6_u8], 0..3_i16);
    prop::collection::vec(lane, 1..16).prop_flat_map(|lanes| {
        let lanes: Vec<Lane> = lanes
            .into_iter()
            .zip(1..)
            .map(|((tenant, priority), id)| Lane {
                id,
                tenant: TenantId::new(format!("tenant-{tenant}")).expect("a valid name"),
                priority,
            })
            .collect();
        let events = prop::collection::vec(event(lanes.len()), 0..120);
        (Just(lanes), events)
    })
}

/// The scheduler, and beside it the expected state.
struct CheckedScheduler {
    scheduler: LaneScheduler,
    lanes: BTreeMap<i32, Lane>,
    ready: BTreeSet<i32>,
    busy: BTreeMap<i32, bool>,
    /// For each tenant with a ready lane: the tenants whose lanes were picked since it began to wait.
    overtaken_by: BTreeMap<String, BTreeSet<String>>,
}

impl CheckedScheduler {
    fn new(lanes: &[Lane]) -> Self {
        Self {
            scheduler: LaneScheduler::default(),
            lanes: lanes.iter().map(|lane| (lane.id, lane.clone())).collect(),
            ready: BTreeSet::new(),
            busy: BTreeMap::new(),
            overtaken_by: BTreeMap::new(),
        }
    }

    fn mark_ready(&mut self, lane: &Lane) {
        self.ready.insert(lane.id);
        self.overtaken_by.entry(lane.tenant.to_string()).or_default();
    }

    fn wake(&mut self, lane: &Lane) {
        let known = self.ready.contains(&lane.id) || self.busy.contains_key(&lane.id);
        assert_eq!(self.scheduler.wake(lane), !known, "wake returns whether the lane became ready");
        if let Some(woken) = self.busy.get_mut(&lane.id) {
            *woken = true;
        } else {
            self.mark_ready(lane);
        }
    }

    fn pick(&mut self, most: usize) -> usize {
        let expected = most.min(self.ready.len());
        let picked = self.scheduler.pick(most);
        assert_eq!(picked.len(), expected, "as many as are ready");
        for lane in &picked {
            self.picked(lane);
        }
        picked.len()
    }

    fn picked(&mut self, lane: &Lane) {
        assert_eq!(self.lanes.get(&lane.id), Some(lane), "unchanged");
        assert!(self.ready.contains(&lane.id), "woken, and not busy elsewhere");
        let of_tenant = self.ready.iter().map(|id| &self.lanes[id]);
        let highest = of_tenant.filter(|other| other.tenant == lane.tenant).map(|other| other.priority).max();
        assert_eq!(Some(lane.priority), highest, "the tenant's highest priority first");
        self.ready.remove(&lane.id);
        self.busy.insert(lane.id, false);

        let tenant = lane.tenant.to_string();
        self.overtaken_by.remove(&tenant);
        for (waiting, overtaken_by) in &mut self.overtaken_by {
            assert!(overtaken_by.insert(tenant.clone()), "{tenant} was picked twice while {waiting} waited");
        }
        if self.ready.iter().any(|id| self.lanes[id].tenant == lane.tenant) {
            self.overtaken_by.insert(tenant, BTreeSet::new());
        }
    }

    fn finish(&mut self, id: i32, more: bool) {
        let woken = self.busy.remove(&id).expect("a busy lane");
        let lane = self.lanes[&id].clone();
        let ready = self.scheduler.finish(&lane, more);
        assert_eq!(ready, more || woken, "ready again if it has more work or was woken");
        if ready {
            self.mark_ready(&lane);
        }
    }

    fn apply(&mut self, lanes: &[Lane], event: &Event) {
        match *event {
            Event::Wake(nth) => self.wake(&lanes[nth]),
            Event::Pick(most) => drop(self.pick(most)),
            Event::Finish(nth, more) => {
                let nth = nth.checked_rem(self.busy.len());
                let id = nth.and_then(|nth| self.busy.keys().nth(nth).copied());
                if let Some(id) = id {
                    self.finish(id, more);
                }
            }
        }
        assert_eq!(self.scheduler.ready_lanes(), self.ready.len(), "the count of ready lanes");
    }

    /// Works until nothing is left; every ready or woken lane must be picked.
    fn drain(&mut self) {
        let most_rounds = 2 * self.lanes.len() + 1;
        for _ in 0..most_rounds {
            for id in self.busy.keys().copied().collect::<Vec<_>>() {
                self.finish(id, false);
            }
            if self.pick(3) == 0 {
                break;
            }
        }
        assert!(self.ready.is_empty() && self.busy.is_empty(), "no lane is forgotten");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tenants_take_turns_lanes_are_exclusive_and_none_is_forgotten((lanes, events) in cases()) {
        let mut checked = CheckedScheduler::new(&lanes);
        for event in &events {
            checked.apply(&lanes, event);
        }
        checked.drain();
    }
}

#[test]
fn a_tenant_with_many_lanes_does_not_delay_another_tenants_first() {
    let lane = |id, tenant: &str| Lane { id, tenant: TenantId::new(tenant).expect("a valid name"), priority: 0 };
    let mut scheduler = LaneScheduler::default();
    for id in 1..=1_000 {
        scheduler.wake(&lane(id, "big"));
    }
    scheduler.pick(1);
    scheduler.wake(&lane(1_001, "small"));
    let next: Vec<i32> = scheduler.pick(2).iter().map(|lane| lane.id).collect();
    assert_eq!(next, [2, 1_001]);
}
