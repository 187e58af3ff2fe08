//! What is asked for and told by messages. Everything about a document is ordered by its id.

use crate::topology::{COMMANDS, EVENTS};
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Read the next pages of a document.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentProcess {
    /// Which document.
    pub document_id: Uuid,
    /// Which reading of it.
    pub analysis: i32,
    /// The first page that is not read yet.
    pub from_page: u32,
}

impl Event for DocumentProcess {
    const TYPE: &'static str = "document.process.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{COMMANDS}:tenant.{tenant}.document.process")
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

/// How far reading a document is: the contract by which lending notes the progress of every command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusUpdate {
    /// The command's type.
    pub kind: String,
    /// Which document.
    pub subject_id: Uuid,
    /// How far it is.
    pub state: Progress,
    /// For people: how many pages are read, or why it failed.
    pub detail: String,
}

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// It waits or is under way.
    Processing,
    /// It is done.
    Done,
    /// It cannot be done.
    Refused,
}

impl StatusUpdate {
    pub(crate) fn new(document_id: Uuid, state: Progress, detail: String) -> Self {
        Self { kind: DocumentProcess::TYPE.to_owned(), subject_id: document_id, state, detail }
    }
}

impl Event for StatusUpdate {
    const TYPE: &'static str = "status.update.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{EVENTS}:tenant.{tenant}.status.document")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.subject_id.to_string())
    }
}
