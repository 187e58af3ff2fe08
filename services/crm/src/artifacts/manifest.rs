//! The manifest of a mail: everything that proves it, without anything personal.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// The manifest's layout.
const VERSION: u32 = 1;

/// What a mail consisted of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub v: u32,
    pub artifact_id: Uuid,
    pub email_id: Uuid,
    pub event_id: Uuid,
    pub correlation_id: String,
    pub loan_id: Option<String>,
    pub template_id: String,
    pub template_version: i32,
    pub template_sha256: String,
    pub class: String,
    pub delivery: String,
    pub variables_hash: String,
    pub message_id: String,
    pub message_sha256: String,
    pub message_bytes: usize,
    pub html_sha256: Option<String>,
    /// The hashes of the recipients' addresses, under the tenant's key.
    pub recipients: Vec<String>,
    pub attachments: Vec<ManifestAttachment>,
    /// The date of the message.
    pub date: Timestamp,
}

/// One attached file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ManifestAttachment {
    pub media_type: String,
    pub bytes: usize,
    pub sha256: String,
}

impl Manifest {
    pub(crate) const CURRENT_VERSION: u32 = VERSION;

    /// Returns the manifest's bytes, in the order in which its members are declared.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest can be serialized")
    }

    /// Returns the objects by name, for the artifact's row.
    pub(crate) fn object_hashes(&self, manifest_sha256: &str) -> Value {
        json!({ "message": self.message_sha256, "html": self.html_sha256, "manifest": manifest_sha256 })
    }
}
