//! Handles `crm.sweep.v1`: deletes objects whose request was never committed.

use crate::{CrmError, events::CrmSweepTick, state::CrmState, store::objects, topology::SWEEP_QUEUE};
use onceward::{Consumer, Failure, Handler, Received, Tx};
use std::sync::Arc;

/// Objects per tick. What remains waits for the next one.
const BATCH_SIZE: i32 = 500;

pub(crate) fn sweep_consumer(state: Arc<CrmState>) -> Consumer {
    Consumer::transactional("crm-sweep", SWEEP_QUEUE).on(SweepHandler { state }).into()
}

struct SweepHandler {
    state: Arc<CrmState>,
}

impl Handler for SweepHandler {
    type Event = CrmSweepTick;

    async fn handle(&self, tx: &mut Tx, _: &Received<'_, CrmSweepTick>) -> Result<(), Failure> {
        Ok(self.sweep(tx).await?)
    }
}

impl SweepHandler {
    /// The object goes first: a crash in between leaves a row, and deleting an object again is no error.
    async fn sweep(&self, tx: &Tx) -> Result<(), CrmError> {
        let minutes = i32::try_from(self.state.settings.sweep_after_minutes).unwrap_or(i32::MAX);
        let abandoned = objects::abandoned_objects(tx, minutes, BATCH_SIZE).await?;
        for (_, object_key) in &abandoned {
            self.state.objects()?.delete(object_key).await?;
        }
        if !abandoned.is_empty() {
            objects::forget_abandoned(tx, &abandoned).await?;
            tracing::info!(objects = abandoned.len(), "deleted objects of requests that were never committed");
        }
        Ok(())
    }
}
