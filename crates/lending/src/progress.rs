//! `status.update.v1`: how far somebody is with a command, told by whoever works on it.
//!
//! What is told becomes the status that callers ask for. A worker elsewhere, such as one that reads documents, publishes
//! [`StatusUpdate`] in the story of the command; workers in this process may write the status themselves.

use crate::loans::store::{State, settle};
use crate::topology::EVENTS;
use onceward::{Consumer, Event, Failure, Handler, Received, Service, TenantId, Tx};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(crate) const SCHEMAS: &[&str] = &[include_str!("../schemas/status.update.v1.json")];

pub(crate) fn consumers(service: Service) -> Service {
    service.consumer(Consumer::transactional("note-progress", "status.update.v1").on(OnStatusUpdate))
}

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Under way; `detail` may say how far.
    Processing,
    /// Done.
    Done,
    /// Refused; `detail` says why.
    Refused,
}

/// How far somebody is with a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusUpdate {
    /// The command's type, such as `document.process.v1`.
    pub kind: String,
    /// What it is about.
    pub subject_id: Uuid,
    /// How far it is.
    pub state: Progress,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Event for StatusUpdate {
    const TYPE: &'static str = "status.update.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{EVENTS}:tenant.{tenant}.status.update")
    }

    /// What is told last counts.
    fn ordering_key(&self) -> Option<String> {
        Some(self.subject_id.to_string())
    }
}

struct OnStatusUpdate;

impl Handler for OnStatusUpdate {
    type Event = StatusUpdate;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, StatusUpdate>) -> Result<(), Failure> {
        let StatusUpdate { kind, subject_id, state, detail } = &received.event;
        let state = match state {
            Progress::Processing => State::Processing,
            Progress::Done => State::Done,
            Progress::Refused => State::Refused,
        };
        settle(tx, kind, *subject_id, state, detail.as_deref()).await?;
        Ok(())
    }
}
