//! An address with the name that a header shows.

use super::{EmailAddress, is_invisible};
use serde::{Deserialize, Serialize};
use std::fmt;

const MAX_NAME_BYTES: usize = 255;

/// An address with an optional display name. `Debug` shows neither.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "MailboxFields")]
pub struct Mailbox {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    address: EmailAddress,
}

/// Why a display name cannot be shown. It never repeats the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailboxError {
    /// A line break, NUL or another character that cannot be seen: it could add a header, or disguise the sender.
    #[error("the display name contains a control or invisible character, such as a line break: remove it")]
    InvisibleCharacter,
    /// More than 255 bytes.
    #[error("the display name is longer than {MAX_NAME_BYTES} bytes: shorten it")]
    TooLong,
}

impl Mailbox {
    /// Creates a mailbox. White space around the name is removed, and an empty name is none.
    pub fn new(name: Option<&str>, address: EmailAddress) -> Result<Self, MailboxError> {
        let name = name.unwrap_or_default();
        if name.chars().any(is_invisible) {
            return Err(MailboxError::InvisibleCharacter);
        }
        let name = name.trim();
        if name.len() > MAX_NAME_BYTES {
            return Err(MailboxError::TooLong);
        }
        Ok(Self { name: (!name.is_empty()).then(|| name.to_owned()), address })
    }

    /// Returns the display name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the address.
    pub fn address(&self) -> &EmailAddress {
        &self.address
    }
}

impl From<EmailAddress> for Mailbox {
    fn from(address: EmailAddress) -> Self {
        Self { name: None, address }
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox(…)")
    }
}

/// A mailbox that has not been checked.
#[derive(Deserialize)]
struct MailboxFields {
    #[serde(default)]
    name: Option<String>,
    address: EmailAddress,
}

impl TryFrom<MailboxFields> for Mailbox {
    type Error = MailboxError;

    fn try_from(fields: MailboxFields) -> Result<Self, MailboxError> {
        Self::new(fields.name.as_deref(), fields.address)
    }
}
