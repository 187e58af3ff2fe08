//! `payment.allocate.v1`: applies a loan's suspense to what is due.

use crate::loans::store::ScheduleCache;
use crate::loans::store::set_command_state;
use crate::payments::{commands::allocate_suspense::allocate_suspense, events::AllocateSuspense};
use crate::progress::CommandState;
use onceward::{Event, Failure, Handler, Received, Tx};
use std::sync::Arc;

pub(crate) struct OnAllocateSuspense {
    pub schedules: Arc<ScheduleCache>,
}

impl Handler for OnAllocateSuspense {
    type Event = AllocateSuspense;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, AllocateSuspense>) -> Result<(), Failure> {
        let command = &received.event;
        let savepoint = tx.savepoint();
        let (state, detail) = match allocate_suspense(tx, &self.schedules, command).await {
            Ok(applied) if applied.is_empty() => {
                (CommandState::Done, Some("nothing was due, or nothing was held in suspense".to_owned()))
            }
            Ok(_) => (CommandState::Done, None),
            Err(refusal) if refusal.is_refusal() => {
                tx.rollback_to(savepoint).await?;
                (CommandState::Refused, Some(refusal.to_string()))
            }
            Err(error) => return Err(error.into()),
        };
        tx.release(savepoint);
        set_command_state(tx, AllocateSuspense::TYPE, command.allocation_id, state, detail.as_deref()).await?;
        Ok(())
    }
}
