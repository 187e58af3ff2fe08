//! `etl.schedule.v1`: looks at what was posted and opens windows, some at a time.

use crate::{
    LendingError, Settings,
    etl::{
        commands::{look, open},
        events::EtlSchedule,
        store,
        window::Cut,
    },
};
use jiff::{SignedDuration, Timestamp};
use onceward::{Failure, Handler, NewMessage, Received, Tx, outbox};
use std::{sync::Arc, time::Duration};

/// Transactions that began within a window may commit for so long before they are late.
const SETTLE: SignedDuration = SignedDuration::from_secs(5);
/// Far more than a tenant has of anything.
const PARTS_AT_MOST: u32 = 1_000_000;

pub(in crate::etl) struct OnSchedule {
    pub settings: Arc<Settings>,
}

impl Handler for OnSchedule {
    type Event = EtlSchedule;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, EtlSchedule>) -> Result<(), Failure> {
        let tick = &received.event;
        let early = SETTLE.saturating_sub(Timestamp::now().duration_since(tick.scheduled_for)).min(SETTLE);
        if early.is_positive() {
            let early = Duration::try_from(early).unwrap_or_default();
            return Err(Failure::snooze(early, "what began within the window may still commit"));
        }
        if self.step(tx, tick.scheduled_for).await? {
            return Ok(());
        }
        if tick.part >= PARTS_AT_MOST {
            return Err(Failure::permanent("a tick was cut into too many parts; the next one goes on"));
        }
        let next = EtlSchedule { part: tick.part + 1, ..tick.clone() };
        let tenant = tx.tenant()?.clone();
        let key = format!("etl-sched:{tenant}:{}:{}", received.envelope.event_id, next.part);
        outbox::send(tx, NewMessage::from_event(&next, &tenant)?.once_per(key)).await?;
        Ok(())
    }
}

impl OnSchedule {
    /// Gives whether the tick is done. Windows wait until everything was looked at, so that each is opened once for all.
    async fn step(&self, tx: &mut Tx, scheduled_for: Timestamp) -> Result<bool, LendingError> {
        let (mut progress, now) = store::lock_progress(tx, self.settings.etl_window_minutes).await?;
        let cut = Cut::new(progress.window_minutes);
        if cut.minutes() != i64::from(self.settings.etl_window_minutes) {
            let (kept, set) = (cut.minutes(), self.settings.etl_window_minutes);
            tracing::warn!(
                kept,
                set,
                "the tenant's windows keep their length; lending.etl_window_minutes is for new tenants"
            );
        }
        let mut all = look(tx, cut, &mut progress).await?;
        if all {
            all = open(tx, &self.settings, cut, &mut progress, scheduled_for.min(now)).await?;
        }
        store::save_progress(tx, &progress).await?;
        Ok(all)
    }
}
