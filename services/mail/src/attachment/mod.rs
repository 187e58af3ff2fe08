//! Files that go with a mail: what they are by their content, and which of them may be sent.
//!
//! The type comes from the content alone; the name must agree with it, so that a reader opens what they see. Programs
//! and scripts are never sent, also not inside an archive. An encrypted ZIP archive is refused, because nobody on the
//! way can check it; an encrypted PDF is accepted, because a bank's statement is one, and it stays a PDF.
//!
//! Reading order: `policy`, `file_name`, `media` (types and their extensions), `content`, `zip`.

mod content;
mod error;
mod file_name;
mod media;
mod policy;
mod zip;

pub use error::AttachmentError;
pub use policy::{AttachmentPolicy, CheckedAttachment};
