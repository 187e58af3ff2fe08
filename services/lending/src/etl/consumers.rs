//! The consumers of reporting messages.

use super::{
    commands::{JobOutcome, build_facts, open_windows, scan_postings},
    events::{EtlJob, EtlSchedule, JOB_QUEUE, SCHEDULE_QUEUE},
    store,
    window::WindowLength,
};
use crate::{LendingError, Settings, topology::tenant_key};
use jiff::{SignedDuration, Timestamp};
use onceward::{Consumer, Event, Failure, Handler, NewMessage, Received, Schedule, Service, Tx, outbox};
use std::{sync::Arc, time::Duration};

/// Longer than usual: a shard of a busy window takes long.
const JOB_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn consumers(service: Service, settings: &Arc<Settings>) -> Service {
    let topic = format!("{}:{}", SCHEDULE_QUEUE.exchange, tenant_key("{tenant}", SCHEDULE_QUEUE.key));
    let schedule = Schedule::new("lending-etl", &settings.etl_cron, topic, EtlSchedule::TYPE)
        .each_tenant()
        .once_per("etl-sched:{tenant}:{tick}");
    // One message per transaction: see the lock order in `store::windows`.
    let on_schedule = Consumer::transactional("schedule-etl", SCHEDULE_QUEUE.name).prefetch(1);
    let on_job = Consumer::transactional("run-etl-jobs", JOB_QUEUE.name).prefetch(1).timeout(JOB_TIMEOUT);
    service
        .consumer(on_schedule.on(OnEtlSchedule { settings: settings.clone() }))
        .consumer(on_job.on(OnEtlJob))
        .schedule(schedule)
}

/// `etl.job.v1`: builds the facts of a shard.
struct OnEtlJob;

impl Handler for OnEtlJob {
    type Event = EtlJob;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, EtlJob>) -> Result<(), Failure> {
        match build_facts(tx, &received.event).await? {
            JobOutcome::Done | JobOutcome::NotNeeded => Ok(()),
            JobOutcome::Unknown => {
                Err(Failure::permanent("this window, shard or generation was never opened; wait for the schedule"))
            }
        }
    }
}

/// How long transactions that began within a window may take to commit before they are late.
const SETTLE: SignedDuration = SignedDuration::from_secs(5);
/// An upper bound far above the number of batches that a tenant has.
const MAX_PARTS: u32 = 1_000_000;

/// `etl.schedule.v1`: scans new postings and opens windows, one batch per transaction.
struct OnEtlSchedule {
    settings: Arc<Settings>,
}

impl Handler for OnEtlSchedule {
    type Event = EtlSchedule;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, EtlSchedule>) -> Result<(), Failure> {
        let tick = &received.event;
        let remaining = SETTLE.saturating_sub(Timestamp::now().duration_since(tick.scheduled_for)).min(SETTLE);
        if remaining.is_positive() {
            let remaining = Duration::try_from(remaining).unwrap_or_default();
            return Err(Failure::snooze(remaining, "transactions that began within the window may still commit"));
        }
        if self.step(tx, tick.scheduled_for).await? {
            return Ok(());
        }
        if tick.part >= MAX_PARTS {
            return Err(Failure::permanent("the tick was split into too many parts; the next tick continues"));
        }
        let next = EtlSchedule { part: tick.part + 1, ..tick.clone() };
        let tenant = tx.tenant()?.clone();
        let key = format!("etl-sched:{tenant}:{}:{}", received.envelope.event_id, next.part);
        outbox::send(tx, NewMessage::from_event(&next, &tenant)?.once_per(key)).await?;
        Ok(())
    }
}

impl OnEtlSchedule {
    /// Returns whether the tick is done. Windows are opened only after everything was scanned, so that each is opened
    /// once.
    async fn step(&self, tx: &mut Tx, scheduled_for: Timestamp) -> Result<bool, LendingError> {
        let (mut progress, now) = store::lock_progress(tx, self.settings.etl_window_minutes).await?;
        let length = WindowLength::new(progress.window_minutes);
        if length.minutes() != i64::from(self.settings.etl_window_minutes) {
            let (kept, set) = (length.minutes(), self.settings.etl_window_minutes);
            tracing::warn!(
                kept,
                set,
                "the tenant's windows keep their length; lending.etl_window_minutes is for new tenants"
            );
        }
        let mut all = scan_postings(tx, length, &mut progress).await?;
        if all {
            all =
                open_windows(tx, &self.settings, length, &mut progress, scheduled_for.min(now), scheduled_for).await?;
        }
        store::save_progress(tx, &progress).await?;
        Ok(all)
    }
}
