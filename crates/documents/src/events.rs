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

/// How far something is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusUpdate {
    /// What it is about: `document/<id>`.
    pub subject: String,
    /// `queued`, `running`, `completed` or `failed`.
    pub state: String,
    /// From 0 to 100.
    pub percent: u8,
    /// For people.
    pub detail: String,
}

impl StatusUpdate {
    /// About a document.
    pub fn document(id: Uuid, state: &str, percent: u8, detail: String) -> Self {
        Self { subject: format!("document/{id}"), state: state.to_owned(), percent, detail }
    }
}

impl Event for StatusUpdate {
    const TYPE: &'static str = "status.update.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{EVENTS}:tenant.{tenant}.status.document")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.subject.clone())
    }
}
