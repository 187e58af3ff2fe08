//! What an event says, as text until somebody looks into it.
//!
//! A relay carries payloads that it never reads. Text from the database is therefore kept as it is, written out as it is,
//! and becomes a value at the first look.

use crate::nul;
use serde::{Serialize, Serializer};
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, fmt, ops::Deref, sync::OnceLock};

/// Values nested deeper than this cannot be read.
const DEPTH: usize = 127;
/// Numbers with at most so many digits in a row fit a double.
const USUAL_DIGITS: usize = 300;

/// The fact itself. It reads like the JSON value that it is.
#[derive(Clone)]
pub struct Payload {
    text: Option<Box<RawValue>>,
    value: OnceLock<Value>,
}

/// Why a text is no payload.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// It is not JSON.
    #[error("{0}")]
    NotJson(#[from] serde_json::Error),
    /// It is JSON that nobody can read.
    #[error("it is nested deeper than {DEPTH} levels")]
    TooDeep,
}

impl Payload {
    /// Keeps a text. It is checked now and read later.
    pub fn from_text(text: &str) -> Result<Self, PayloadError> {
        let text = RawValue::from_string(text.to_owned())?;
        let look = Look::at(text.get().as_bytes());
        if look.deepest > DEPTH {
            return Err(PayloadError::TooDeep);
        }
        let value = OnceLock::new();
        if look.unusual_number {
            let _ = value.set(serde_json::from_str(text.get())?);
        }
        Ok(Self { text: Some(text), value })
    }

    /// The value.
    pub fn value(&self) -> &Value {
        let read = || self.text.as_ref().and_then(|text| serde_json::from_str(text.get()).ok());
        self.value.get_or_init(|| read().expect("a text was checked when it was kept"))
    }

    /// Whether it holds the character NUL.
    pub fn has_nul(&self) -> bool {
        match &self.text {
            Some(text) => nul::in_json(text.get()),
            None => nul::in_value(self.value()),
        }
    }

    /// The text.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.text {
            Some(text) => text.get().into(),
            None => self.value().to_string().into(),
        }
    }
}

/// What can make valid JSON unreadable.
#[derive(Default)]
struct Look {
    deepest: usize,
    /// A number with an exponent, or with more digits than a double's largest.
    unusual_number: bool,
}

impl Look {
    fn at(text: &[u8]) -> Self {
        let mut look = Self::default();
        let (mut depth, mut digits, mut quoted, mut escaped) = (0_usize, 0, false, false);
        for byte in text {
            let in_number = digits > 0;
            digits = if !quoted && byte.is_ascii_digit() { digits + 1 } else { 0 };
            look.unusual_number |= digits > USUAL_DIGITS;
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b'e' | b'E' if in_number => look.unusual_number = true,
                b'{' | b'[' if !quoted => {
                    depth += 1;
                    look.deepest = look.deepest.max(depth);
                }
                b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        look
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self { text: None, value: OnceLock::from(value) }
    }
}

impl Deref for Payload {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value()
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.text {
            Some(text) => text.serialize(serializer),
            None => self.value().serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_text_is_written_as_it_is_and_read_when_it_is_looked_into() {
        let payload = Payload::from_text(r#"{"b": 1,  "a": "x"}"#).unwrap();
        assert_eq!(serde_json::to_string(&payload).unwrap(), r#"{"b": 1,  "a": "x"}"#);
        assert_eq!(payload["b"], 1);
        assert_eq!(payload, Payload::from(json!({"a": "x", "b": 1})));
        assert_eq!(serde_json::to_value(&payload).unwrap(), json!({"a": "x", "b": 1}));
    }

    #[test]
    fn what_cannot_be_read_is_refused_when_it_is_kept() {
        assert!(matches!(Payload::from_text("{"), Err(PayloadError::NotJson(_))));
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(
            *Payload::from_text(&nested(DEPTH)).unwrap(),
            serde_json::from_str::<Value>(&nested(DEPTH)).unwrap()
        );
        assert!(matches!(Payload::from_text(&nested(DEPTH + 1)), Err(PayloadError::TooDeep)));
        assert!(Payload::from_text("[1e999]").is_err() && Payload::from_text(&"9".repeat(400)).is_err());
        assert_eq!(Payload::from_text("[1.5E3, true]").unwrap()[0], 1500.0);
        assert!(Payload::from_text(&format!("\"{}\\\"{}\"", "[".repeat(500), "{".repeat(500))).is_ok());
    }

    proptest! {
        #[test]
        fn whatever_is_kept_can_be_read(text in "[\\[\\]{}\",:.0-9aeE\\\\ -]{0,40}") {
            if let Ok(payload) = Payload::from_text(&text) {
                prop_assert_eq!(payload.value(), &serde_json::from_str::<Value>(&text).unwrap());
            }
        }
    }
}
