//! Names of files: the last path element, without anything that disguises it.

use super::AttachmentError;
use crate::address::is_invisible;
use icu_normalizer::ComposingNormalizerBorrowed;

const MAX_NAME_BYTES: usize = 255;

/// Returns the last path element in NFC. Folders are removed; everything else that is wrong is an error.
pub(super) fn checked_name(path: &str) -> Result<String, AttachmentError> {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    if name.is_empty() {
        return Err(AttachmentError::NoName);
    }
    if name.chars().any(is_invisible) {
        return Err(AttachmentError::InvisibleCharacter);
    }
    if name.starts_with('.') || name.ends_with('.') {
        return Err(AttachmentError::OuterDot);
    }
    let name = ComposingNormalizerBorrowed::new_nfc().normalize(name).into_owned();
    if name.len() > MAX_NAME_BYTES {
        return Err(AttachmentError::NameTooLong { limit: MAX_NAME_BYTES });
    }
    Ok(name)
}

/// Returns the extension in lower case, empty if there is none.
pub(super) fn extension(name: &str) -> String {
    name.rsplit_once('.').map_or_else(String::new, |(_, extension)| extension.trim().to_lowercase())
}
