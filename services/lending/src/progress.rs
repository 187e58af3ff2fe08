//! `status.update.v1`: a worker's progress on a command.
//!
//! The update becomes the status that callers query. An external worker, such as one that reads documents, publishes
//! [`StatusUpdate`] in the story of the command; workers in this process may write the status directly.

use crate::loans::store::set_command_state;
use crate::topology::{WorkQueue, exchanges, tenant_key};
use onceward::{Consumer, Event, Failure, Handler, Received, Service, TenantId, Tx};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(crate) const SCHEMAS: &[&str] = &[include_str!("../schemas/status.update.v1.json")];

/// The queue of [`StatusUpdate`], and of other progress.
pub(crate) const QUEUE: WorkQueue =
    WorkQueue { name: "status.update.v1", exchange: exchanges::EVENTS, key: "status.#" };

pub(crate) fn consumers(service: Service) -> Service {
    service.consumer(Consumer::transactional("note-progress", QUEUE.name).on(OnStatusUpdate))
}

/// The state of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandState {
    /// In progress.
    Processing,
    /// Done.
    Done,
    /// Refused, for a reason.
    Refused,
}

impl CommandState {
    /// The name in messages and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }
}

/// A worker's progress on a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusUpdate {
    /// The command's type, such as `document.process.v1`.
    pub kind: String,
    /// The id of the command's subject.
    pub subject_id: Uuid,
    /// The command's state.
    pub state: CommandState,
    /// How far it is, or the reason for a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Event for StatusUpdate {
    const TYPE: &'static str = "status.update.v1";
    const EXCHANGE: &'static str = QUEUE.exchange;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, "status.update")
    }

    /// Updates of one subject are ordered, so the last one counts.
    fn ordering_key(&self) -> Option<String> {
        Some(self.subject_id.to_string())
    }
}

struct OnStatusUpdate;

impl Handler for OnStatusUpdate {
    type Event = StatusUpdate;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, StatusUpdate>) -> Result<(), Failure> {
        let StatusUpdate { kind, subject_id, state, detail } = &received.event;
        set_command_state(tx, kind, *subject_id, *state, detail.as_deref()).await?;
        Ok(())
    }
}
