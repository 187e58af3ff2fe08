//! The name and version of an event, which is also the `$id` of its schema.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::InvalidId;

const RULE: &str =
    "use dot-separated words of letters, digits, '_' or '-' and a version from 1, such as payment.posted.v1";
const VERSION_IN_NAME: &str = "the name must not end in a version: give the version on its own";
const NAME_LEN_MAX: usize = 200;

/// The type of an event with the version of its contract: `payment.posted.v1`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventType {
    text: Arc<str>,
    name_len: usize,
    version: u16,
}

impl EventType {
    /// Creates an event type: `EventType::new("payment.posted", 1)` is `payment.posted.v1`. Fails if `check` does.
    pub fn new(name: impl AsRef<str>, version: u16) -> Result<Self, InvalidId> {
        let name = name.as_ref();
        Self::check(name, version)?;
        Ok(Self { text: format!("{name}.v{version}").into(), name_len: name.len(), version })
    }

    /// Fails if the name or the version is invalid.
    pub fn check(name: &str, version: u16) -> Result<(), InvalidId> {
        check_name(name)?;
        if version == 0 { Err(invalid(RULE)) } else { Ok(()) }
    }

    /// The name without the version: `payment.posted`.
    pub fn name(&self) -> &str {
        &self.text[..self.name_len]
    }

    /// The version of the payload's contract, from 1.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The `$id` of the payload's schema: `payment.posted.v1`.
    pub fn schema_id(&self) -> &str {
        &self.text
    }

    /// Name and version as one string: `payment.posted.v1`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Splits `payment.posted.v1` into its name and version; returns `None` if the text has another form.
pub(crate) fn split_version(text: &str) -> Option<(&str, u16)> {
    let (name, word) = text.rsplit_once('.')?;
    let digits = word.strip_prefix('v')?;
    // One spelling for each version: no sign, no leading zero.
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    plain.then(|| digits.parse().ok()).flatten().map(|version| (name, version))
}

fn check_name(name: &str) -> Result<(), InvalidId> {
    let word_ok =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if name.len() > NAME_LEN_MAX || !name.split('.').all(word_ok) {
        return Err(invalid(RULE));
    }
    if split_version(name).is_some() {
        return Err(invalid(VERSION_IN_NAME));
    }
    Ok(())
}

fn invalid(rule: &'static str) -> InvalidId {
    InvalidId { what: "event type", rule }
}

impl FromStr for EventType {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let (name, version) = split_version(text).ok_or(invalid(RULE))?;
        Self::new(name, version)
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventType({})", self.text)
    }
}

impl Serialize for EventType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for EventType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_type_is_its_name_and_its_version() {
        let event_type: EventType = "payment.posted.v12".parse().unwrap();
        assert_eq!(event_type.name(), "payment.posted");
        assert_eq!(event_type.version(), 12);
        assert_eq!(event_type.schema_id(), "payment.posted.v12");
        assert_eq!(event_type, EventType::new("payment.posted", 12).unwrap());
    }

    #[test]
    fn a_name_has_one_spelling_only() {
        for bad in [
            "payment.posted",
            "payment.posted.v0",
            "payment.posted.v01",
            "payment.posted.v+1",
            "payment.posted.v70000",
            "payment..posted.v1",
            ".v1",
            "v1",
            "payment.*.v1",
            "payment.posted.v1.v1",
        ] {
            assert!(bad.parse::<EventType>().is_err(), "{bad} was accepted");
        }
        assert!(EventType::new("payment.posted.v1", 1).is_err());
        assert!(EventType::new("payment.posted", 0).is_err());
    }
}
