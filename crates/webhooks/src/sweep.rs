//! `webhooks.sweep.v1`: clears away what is old, some at a time.

use crate::{events::Sweep, store};
use onceward::{Failure, Handler, NewMessage, Received, Tx, outbox};

/// Rows of each kind in one transaction.
const BATCH: i32 = 2_000;
/// What is left then waits for the next tick.
const PARTS_AT_MOST: u32 = 10_000;

pub(crate) struct OnSweep {
    pub keep_days: u32,
}

impl Handler for OnSweep {
    type Event = Sweep;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, Sweep>) -> Result<(), Failure> {
        let keep_days = i32::try_from(self.keep_days).unwrap_or(i32::MAX);
        let swept = store::sweep(tx, keep_days, BATCH).await?;
        let tick = &received.event;
        if swept < BATCH || tick.part >= PARTS_AT_MOST {
            return Ok(());
        }
        let next = Sweep { part: tick.part + 1, ..tick.clone() };
        let message = NewMessage::from_event(&next, tx.tenant()?)?;
        outbox::send(tx, message.once_per(format!("webhooks.sweep:{}", received.envelope.event_id))).await?;
        Ok(())
    }
}
