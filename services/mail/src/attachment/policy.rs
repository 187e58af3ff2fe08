//! Which files may be sent, and a file that was found to be one of them.

use super::{
    AttachmentError,
    content::media_type,
    file_name::{checked_name, extension},
    media::{default_types, has_extension, is_executable_extension},
};
use crate::message::encoded_len;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// The limits of the files of one mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AttachmentPolicy {
    /// How many files.
    pub max_files: usize,
    /// How many bytes all files may have after base64, which is what servers count.
    pub max_encoded_bytes: usize,
    /// The types that may be sent. `message/rfc822` is known and not among the defaults.
    pub allowed_media_types: Vec<String>,
}

impl Default for AttachmentPolicy {
    fn default() -> Self {
        Self { max_files: 10, max_encoded_bytes: 10 * 1024 * 1024, allowed_media_types: default_types() }
    }
}

impl AttachmentPolicy {
    /// Checks one file. Folders before its name are dropped.
    pub fn check(&self, file_name: &str, content: Vec<u8>) -> Result<CheckedAttachment, AttachmentError> {
        let file_name = checked_name(file_name)?;
        let extension = extension(&file_name);
        if is_executable_extension(&extension) {
            return Err(AttachmentError::Executable);
        }
        if encoded_len(content.len()) > self.max_encoded_bytes {
            return Err(AttachmentError::TooLarge { limit: self.max_encoded_bytes });
        }
        let media_type = media_type(&content, &extension)?;
        if !self.allowed_media_types.iter().any(|allowed| allowed == media_type) {
            return Err(AttachmentError::TypeNotAllowed { media_type });
        }
        if !has_extension(media_type, &extension) {
            return Err(AttachmentError::ExtensionMismatch { media_type });
        }
        let sha256 = Sha256::digest(&content).into();
        Ok(CheckedAttachment { file_name, media_type, content, sha256 })
    }

    /// Checks the number and the total size of the files of one mail.
    pub fn check_all(&self, files: &[CheckedAttachment]) -> Result<(), AttachmentError> {
        if files.len() > self.max_files {
            return Err(AttachmentError::TooMany { limit: self.max_files });
        }
        let encoded: usize = files.iter().map(|file| encoded_len(file.content.len())).sum();
        if encoded > self.max_encoded_bytes {
            return Err(AttachmentError::TooLarge { limit: self.max_encoded_bytes });
        }
        Ok(())
    }
}

/// A file that may be sent. `Debug` shows its type and size, not its name or content.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckedAttachment {
    file_name: String,
    media_type: &'static str,
    content: Vec<u8>,
    sha256: [u8; 32],
}

impl CheckedAttachment {
    /// Returns the name that the reader sees.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// Returns the type of the content.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// Returns the content.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Returns the content's hash, for the manifest.
    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }
}

impl fmt::Debug for CheckedAttachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CheckedAttachment");
        shown.field("media_type", &self.media_type).field("bytes", &self.content.len()).finish_non_exhaustive()
    }
}
