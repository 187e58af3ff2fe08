//! Identifiers as types: a string that has been checked once and is then cheap to clone.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

/// The reason why a string is not a valid identifier. It omits the string, which may be personal data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not valid: {rule}")]
pub struct InvalidId {
    /// The kind of identifier, such as `tenant id`.
    pub what: &'static str,
    /// The violated rule, worded as what to send.
    pub rule: &'static str,
}

/// Declares an identifier over `Arc<str>` that can only be created through its check.
macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates an identifier. Fails if `text` is invalid.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                let text = text.as_ref();
                Self::check(text)?;
                Ok(Self(text.into()))
            }

            /// Fails if `text` is not a valid identifier.
            pub fn check(text: &str) -> Result<(), InvalidId> {
                $check(text).map_err(|rule| InvalidId { what: $what, rule })
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &*self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(text).map_err(de::Error::custom)
            }
        }
    };
}

string_id!(
    /// The owner of data: 1 to 64 letters, digits, `_` or `-`.
    ///
    /// No dot, because a tenant id may be one word of a routing key.
    TenantId,
    "tenant id",
    tenant_rule
);
string_id!(
    /// Links everything that one request caused: 1 to 255 printable ASCII characters.
    ///
    /// ASCII, because it is echoed in HTTP headers.
    CorrelationId,
    "correlation id",
    correlation_rule
);
string_id!(
    /// Ensures that an effect happens once: 1 to 255 printable characters, unique per tenant.
    IdempotencyKey,
    "idempotency key",
    key_rule
);

impl CorrelationId {
    /// Returns a new correlation id: a version 7 UUID.
    pub fn generate() -> Self {
        Self(Uuid::now_v7().to_string().into())
    }
}

impl From<Uuid> for CorrelationId {
    fn from(id: Uuid) -> Self {
        Self(id.to_string().into())
    }
}

impl From<Uuid> for IdempotencyKey {
    fn from(id: Uuid) -> Self {
        Self(id.to_string().into())
    }
}

fn tenant_rule(text: &str) -> Result<(), &'static str> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if (1..=64).contains(&text.len()) && text.bytes().all(word) {
        Ok(())
    } else {
        Err("use 1 to 64 letters, digits, '_' or '-'")
    }
}

fn correlation_rule(text: &str) -> Result<(), &'static str> {
    let printable = text.bytes().all(|b| (0x20..=0x7e).contains(&b));
    if (1..=255).contains(&text.len()) && printable && text.trim() == text {
        Ok(())
    } else {
        Err("use 1 to 255 printable ASCII characters, without spaces at the ends")
    }
}

fn key_rule(text: &str) -> Result<(), &'static str> {
    // A fast path: nearly every key matches, and every message has one.
    if (1..=255).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    let fits = !text.is_empty() && text.chars().nth(255).is_none();
    // The two Unicode line breaks are not control characters, but split a log line like one.
    let printable = !text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'));
    if fits && printable && text.trim() == text {
        Ok(())
    } else {
        Err("use 1 to 255 printable characters, without spaces at the ends")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_id_is_one_word_of_a_routing_key() {
        for good in ["a", "acme", "ACME_2-x", &"t".repeat(64)] {
            assert_eq!(TenantId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a.b", "a*", "#", "a b", "ä", "a\n", &"t".repeat(65)] {
            assert!(TenantId::new(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn a_correlation_id_fits_in_a_header() {
        assert!(CorrelationId::new("req 1/α").is_err());
        assert!(CorrelationId::new("req\r\nx: y").is_err());
        assert!(CorrelationId::new(" padded").is_err());
        assert!(CorrelationId::new("c".repeat(256)).is_err());
        assert!(CorrelationId::new("c".repeat(255)).is_ok());
        assert_ne!(CorrelationId::generate(), CorrelationId::generate());
    }

    #[test]
    fn an_idempotency_key_counts_characters_not_bytes() {
        assert!(IdempotencyKey::new("é".repeat(255)).is_ok());
        assert!(IdempotencyKey::new("é".repeat(256)).is_err());
        assert!(IdempotencyKey::new("").is_err());
        assert!(IdempotencyKey::new("a\u{2028}b").is_err());
        assert!(IdempotencyKey::new("a\0b").is_err());
    }

    #[test]
    fn reading_json_applies_the_same_rules_and_keeps_the_value_out_of_the_error() {
        assert_eq!(serde_json::from_str::<TenantId>("\"acme\"").unwrap(), TenantId::new("acme").unwrap());
        let error = serde_json::from_str::<TenantId>("\"jane@example.org\"").unwrap_err();
        assert!(error.to_string().contains("use 1 to 64"));
        assert!(!error.to_string().contains("jane"));
        assert_eq!(serde_json::to_string(&TenantId::new("t1").unwrap()).unwrap(), "\"t1\"");
    }
}
