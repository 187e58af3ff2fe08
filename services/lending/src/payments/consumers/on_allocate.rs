//! `payment.allocate.v1`: applies a loan's suspense to what is due.

use crate::loans::store::ScheduleCache;
use crate::loans::store::set_command_state;
use crate::payments::commands::allocate_suspense::allocate_suspense;
use crate::progress::CommandState;
use crate::topology::{WorkQueue, exchanges, tenant_key};
use jiff::civil::Date;
use onceward::{Consumer, Event, Failure, Handler, Received, TenantId, Tx};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

/// The queue of this message.
pub(crate) const QUEUE: WorkQueue =
    WorkQueue { name: "payment.allocate.v1", exchange: exchanges::COMMANDS, key: "payment.allocate" };

/// The command to apply a loan's suspense to what is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct AllocateSuspense {
    pub allocation_id: Uuid,
    pub loan_id: Uuid,
    pub effective_date: Date,
}

impl Event for AllocateSuspense {
    const TYPE: &'static str = "payment.allocate.v1";
    const EXCHANGE: &'static str = QUEUE.exchange;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, QUEUE.key)
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.loan_id.to_string())
    }
}

pub(super) fn consumer(schedules: &Arc<ScheduleCache>) -> Consumer {
    Consumer::transactional("allocate-suspense", QUEUE.name)
        .on(OnAllocateSuspense { schedules: schedules.clone() })
        .into()
}

struct OnAllocateSuspense {
    schedules: Arc<ScheduleCache>,
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
