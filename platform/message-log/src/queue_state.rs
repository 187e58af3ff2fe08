//! The state of a queue in this process: which lanes may have work, which are paused, and who is woken.

use crate::{
    controls::{QueueControl, watch},
    lane_scheduler::{Lane, LaneScheduler, PausedTenants},
    work_poller::WorkPoller,
};
use onceward_envelope::TenantId;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// The state of a queue that its reader, its poller and the wake-ups share.
pub(crate) struct QueueState {
    pub name: String,
    pub queue_id: i32,
    pub poller: WorkPoller,
    scheduler: Mutex<LaneScheduler>,
    pub woken: Notify,
    /// Whether every lane was checked once. Before that, a lane that was woken may be the least urgent of all.
    polled_once: AtomicBool,
    /// Whether a risky lane goes first the next time it was read together with others.
    risky_next: AtomicBool,
    /// What operators have set for this queue.
    pub control: Mutex<QueueControl>,
    /// Until when a rate limit allows no messages: of the whole queue (`None`), or of a tenant.
    throttled: Mutex<HashMap<Option<TenantId>, Instant>>,
}

impl QueueState {
    pub(crate) fn new(name: String, queue_id: i32) -> Self {
        Self {
            name,
            queue_id,
            poller: WorkPoller::new(),
            scheduler: Mutex::default(),
            woken: Notify::new(),
            polled_once: AtomicBool::new(false),
            risky_next: AtomicBool::new(true),
            control: Mutex::default(),
            throttled: Mutex::default(),
        }
    }

    /// Applies what operators have set for this queue.
    pub(crate) fn set_control(self: &Arc<Self>, control: QueueControl) {
        // Controls are set again and again, so a timer is needed only for a pause that ends before the next time.
        if let Some(end) = control.next_end().filter(|end| *end < Instant::now() + watch::INTERVAL * 2) {
            self.apply_pauses_at(end);
        }
        *self.control.lock() = control;
        self.apply_pauses();
    }

    /// Keeps the queue, or one tenant in it, from being read for `wait`.
    pub(crate) fn throttle(self: &Arc<Self>, wait: Duration, tenant: Option<TenantId>) {
        let end = Instant::now() + wait;
        self.throttled.lock().insert(tenant, end);
        self.apply_pauses();
        self.apply_pauses_at(end);
    }

    fn apply_pauses_at(self: &Arc<Self>, at: Instant) {
        let state = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(state) = state.upgrade() {
                state.apply_pauses();
            }
        });
    }

    /// Passes the tenants that are paused or throttled now to the scheduler.
    fn apply_pauses(&self) {
        let paused = self.paused_tenants(Instant::now());
        if self.scheduler.lock().set_paused(paused) {
            self.woken.notify_one();
        }
    }

    fn paused_tenants(&self, now: Instant) -> PausedTenants {
        let control = self.control.lock();
        let mut throttled = self.throttled.lock();
        throttled.retain(|_, end| *end > now);
        if control.paused_until.is_some_and(|end| end > now) || throttled.contains_key(&None) {
            return PausedTenants::All;
        }
        let paused = control.paused_tenants.iter().filter(|(_, end)| **end > now).map(|(tenant, _)| tenant.clone());
        let paused: HashSet<TenantId> = paused.chain(throttled.keys().flatten().cloned()).collect();
        if paused.is_empty() { PausedTenants::None } else { PausedTenants::Some(paused) }
    }

    /// Records that the scheduler now knows all lanes with work.
    pub(crate) fn finish_first_poll(&self) {
        if !self.polled_once.swap(true, Ordering::AcqRel) {
            self.woken.notify_one();
        }
    }

    /// Alternates between `true` and `false`, so that risky lanes and the others take turns.
    pub(crate) fn prefers_risky(&self) -> bool {
        self.risky_next.fetch_xor(true, Ordering::AcqRel)
    }

    /// Records that this lane has work.
    pub(crate) fn wake(&self, lane: &Lane) {
        if self.scheduler.lock().wake(lane) {
            self.woken.notify_one();
        }
    }

    /// Polls for work as soon as possible: any lane may have some.
    pub(crate) fn poll_now(&self) {
        self.poller.poll_within(Duration::ZERO);
    }

    /// Ends the turn in this lane.
    pub(crate) fn finish(&self, lane: &Lane, more: bool) {
        if self.scheduler.lock().finish(lane, more) {
            self.woken.notify_one();
        }
    }

    pub(crate) fn pick(&self, sharers: usize, most: usize) -> Vec<Lane> {
        if !self.polled_once.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut scheduler = self.scheduler.lock();
        let fair_share = (scheduler.ready_lanes() / sharers.max(1)).clamp(1, most);
        let mut picked = scheduler.pick(fair_share);
        // A tenant's lower priorities wait for another turn; otherwise they would share every turn with the higher
        // ones. The first lane of a tenant has its highest priority.
        let mut highest: HashMap<TenantId, i16> = HashMap::new();
        picked.retain(|lane| {
            let first = *highest.entry(lane.tenant.clone()).or_insert(lane.priority);
            let keep = lane.priority == first;
            if !keep {
                scheduler.finish(lane, true);
            }
            keep
        });
        if scheduler.ready_lanes() > 0 {
            self.woken.notify_one();
        }
        picked
    }
}
