//! `payment.allocate.v1`: applies what a loan holds in suspense to what is due.

use crate::loans::store::{State, settle};
use crate::payments::{
    commands::{allocate::allocate, place::Schedules},
    events::AllocateSuspense,
};
use onceward::{Event, Failure, Handler, Received, Tx};
use std::sync::Arc;

pub(crate) struct OnAllocate {
    pub schedules: Arc<Schedules>,
}

impl Handler for OnAllocate {
    type Event = AllocateSuspense;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, AllocateSuspense>) -> Result<(), Failure> {
        let command = &received.event;
        let before = tx.savepoint();
        let (state, detail) = match allocate(tx, &self.schedules, command).await {
            Ok(applied) if applied.is_empty() => (State::Done, Some("nothing was due, or nothing is held".to_owned())),
            Ok(_) => (State::Done, None),
            Err(refusal) if refusal.is_refusal() => {
                tx.rollback_to(before).await?;
                (State::Refused, Some(refusal.to_string()))
            }
            Err(error) => return Err(error.into()),
        };
        tx.release(before);
        settle(tx, AllocateSuspense::TYPE, command.allocation_id, state, detail.as_deref()).await?;
        Ok(())
    }
}
