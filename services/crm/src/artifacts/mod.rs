//! What proves a mail: its exact bytes, its HTML and a manifest, as immutable objects that are found by their hashes.
//!
//! ```text
//! audit entry CRM.EMAIL.SENT ─ manifest_sha256 ─▶ manifest ─┬─ message_sha256 ─▶ the bytes that were handed over
//!                                                           ├─ html_sha256 ────▶ the HTML part
//!                                                           └─ attachments, template version, variables hash
//! ```
//!
//! Objects are encrypted under a data key of the contact. Forgetting that key erases the person; the hashes stay in the
//! chain.

mod manifest;
mod objects;
mod store;
mod verify;

pub(crate) use manifest::{Manifest, ManifestAttachment};
pub(crate) use objects::{ObjectName, Objects};
pub(crate) use store::{find_artifact, insert_artifact};
pub(crate) use verify::{check_artifact, read_manifest, read_message};
