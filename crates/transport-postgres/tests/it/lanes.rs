//! Properties of the book of lanes: fairness, exclusiveness, priorities, and that no lane is forgotten.

use onceward_envelope::TenantId;
use onceward_transport_postgres::lanes::{Lane, LaneBook};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Event {
    Wake(usize),
    Pick(usize),
    /// The nth busy lane is through; there may be more in it.
    Finish(usize, bool),
}

fn event(lanes: usize) -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..lanes).prop_map(Event::Wake),
        2 => (1..5_usize).prop_map(Event::Pick),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(nth, more)| Event::Finish(nth, more)),
    ]
}

/// Some lanes, unevenly spread over tenants and priorities, and what happens to them.
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

/// The book, and beside it what it should know.
struct Watched {
    book: LaneBook,
    lanes: BTreeMap<i32, Lane>,
    hot: BTreeSet<i32>,
    busy: BTreeMap<i32, bool>,
    /// For each tenant with a hot lane: whose lanes were picked since it began to wait.
    overtaken_by: BTreeMap<String, BTreeSet<String>>,
}

impl Watched {
    fn new(lanes: &[Lane]) -> Self {
        Self {
            book: LaneBook::default(),
            lanes: lanes.iter().map(|lane| (lane.id, lane.clone())).collect(),
            hot: BTreeSet::new(),
            busy: BTreeMap::new(),
            overtaken_by: BTreeMap::new(),
        }
    }

    fn heat(&mut self, lane: &Lane) {
        self.hot.insert(lane.id);
        self.overtaken_by.entry(lane.tenant.to_string()).or_default();
    }

    fn wake(&mut self, lane: &Lane) {
        let known = self.hot.contains(&lane.id) || self.busy.contains_key(&lane.id);
        assert_eq!(self.book.wake(lane), !known, "wake tells what is news");
        if let Some(woken) = self.busy.get_mut(&lane.id) {
            *woken = true;
        } else {
            self.heat(lane);
        }
    }

    fn pick(&mut self, most: usize) -> usize {
        let expected = most.min(self.hot.len());
        let picked = self.book.pick(most);
        assert_eq!(picked.len(), expected, "as many as there are");
        for lane in &picked {
            self.picked(lane);
        }
        picked.len()
    }

    fn picked(&mut self, lane: &Lane) {
        assert_eq!(self.lanes.get(&lane.id), Some(lane), "unchanged");
        assert!(self.hot.contains(&lane.id), "woken, and not busy elsewhere");
        let of_tenant = self.hot.iter().map(|id| &self.lanes[id]);
        let highest = of_tenant.filter(|other| other.tenant == lane.tenant).map(|other| other.priority).max();
        assert_eq!(Some(lane.priority), highest, "the tenant's highest priority first");
        self.hot.remove(&lane.id);
        self.busy.insert(lane.id, false);

        let tenant = lane.tenant.to_string();
        self.overtaken_by.remove(&tenant);
        for (waiting, overtaken_by) in &mut self.overtaken_by {
            assert!(overtaken_by.insert(tenant.clone()), "{tenant} was picked twice while {waiting} waited");
        }
        if self.hot.iter().any(|id| self.lanes[id].tenant == lane.tenant) {
            self.overtaken_by.insert(tenant, BTreeSet::new());
        }
    }

    fn finish(&mut self, id: i32, more: bool) {
        let woken = self.busy.remove(&id).expect("a busy lane");
        let lane = self.lanes[&id].clone();
        let hot = self.book.finish(&lane, more);
        assert_eq!(hot, more || woken, "hot again if there is more or it was woken");
        if hot {
            self.heat(&lane);
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
        assert_eq!(self.book.hot(), self.hot.len(), "the count of hot lanes");
    }

    /// Works until nothing is left; every hot or woken lane must come.
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
        assert!(self.hot.is_empty() && self.busy.is_empty(), "no lane is forgotten");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tenants_take_turns_lanes_are_exclusive_and_none_is_forgotten((lanes, events) in cases()) {
        let mut watched = Watched::new(&lanes);
        for event in &events {
            watched.apply(&lanes, event);
        }
        watched.drain();
    }
}

#[test]
fn a_tenant_with_many_lanes_does_not_delay_another_tenants_first() {
    let lane = |id, tenant: &str| Lane { id, tenant: TenantId::new(tenant).expect("a valid name"), priority: 0 };
    let mut book = LaneBook::default();
    for id in 1..=1_000 {
        book.wake(&lane(id, "big"));
    }
    book.pick(1);
    book.wake(&lane(1_001, "small"));
    let next: Vec<i32> = book.pick(2).iter().map(|lane| lane.id).collect();
    assert_eq!(next, [2, 1_001]);
}
