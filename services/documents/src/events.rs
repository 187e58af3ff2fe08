//! The messages of this service. Messages about one document are ordered: its id is their ordering key.

use crate::topology::{COMMANDS_EXCHANGE, EVENTS_EXCHANGE};
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A request to read the next pages of a document.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentProcess {
    /// The document.
    pub document_id: Uuid,
    /// The number of the analysis, counted per document.
    pub analysis: i32,
    /// The first page to read, counted from 1.
    pub from_page: u32,
}

impl Event for DocumentProcess {
    const TYPE: &'static str = "document.process.v1";
    const EXCHANGE: &'static str = COMMANDS_EXCHANGE;

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.document.process")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.document_id.to_string())
    }

    fn idempotency_key(&self) -> Option<String> {
        Some(format!("document.process:{}:{}:{}", self.document_id, self.analysis, self.from_page))
    }

    fn aggregate(&self) -> Option<(String, String)> {
        Some(("document".to_owned(), self.document_id.to_string()))
    }
}

/// Progress of reading a document, in the format in which lending records the progress of every command.
///
/// Lending has a type and a schema of the same name on purpose: services share contracts, not code. A test of this crate
/// runs both services, and lending records these messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusUpdate {
    /// The type of the command.
    pub kind: String,
    /// The document.
    pub subject_id: Uuid,
    /// The state of the command.
    pub state: CommandState,
    /// Text for people: the number of pages read, or why reading failed.
    pub detail: String,
}

/// The state of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandState {
    /// It is queued or in progress.
    Processing,
    /// It is done.
    Done,
    /// It failed and is not retried.
    Refused,
}

impl StatusUpdate {
    pub(crate) fn new(document_id: Uuid, state: CommandState, detail: String) -> Self {
        Self { kind: DocumentProcess::TYPE.to_owned(), subject_id: document_id, state, detail }
    }
}

impl Event for StatusUpdate {
    const TYPE: &'static str = "status.update.v1";
    const EXCHANGE: &'static str = EVENTS_EXCHANGE;

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.status.document")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.subject_id.to_string())
    }
}
