//! An event's payload, stored as text until it is read.
//!
//! A relay forwards payloads that it never reads. Text from the database is therefore stored and written unchanged,
//! and parsed when it is first read.

use crate::nul;
use serde::{Serialize, Serializer};
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, fmt, ops::Deref, sync::OnceLock};

/// The maximum nesting of values that can be parsed.
const DEPTH: usize = 127;
/// Numbers with at most this many consecutive digits fit a double.
const USUAL_DIGITS: usize = 300;

/// The fact itself. It can be used like the JSON value it contains.
#[derive(Clone)]
pub struct Payload {
    text: Option<Box<RawValue>>,
    value: OnceLock<Value>,
}

/// The reason why a text is not a payload.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// It is not JSON.
    #[error("{0}")]
    NotJson(#[from] serde_json::Error),
    /// It is JSON that no reader can parse.
    #[error("it is nested deeper than {DEPTH} levels")]
    TooDeep,
}

impl Payload {
    /// Stores a text. Checks now that it can be parsed and fails otherwise; it is parsed when it is first read.
    pub fn from_text(text: &str) -> Result<Self, PayloadError> {
        let text = RawValue::from_string(text.to_owned())?;
        let scan = JsonScan::of(text.get().as_bytes());
        if scan.deepest > DEPTH {
            return Err(PayloadError::TooDeep);
        }
        let value = OnceLock::new();
        if scan.unusual {
            let _ = value.set(serde_json::from_str(text.get())?);
        }
        Ok(Self { text: Some(text), value })
    }

    /// Returns the parsed value.
    pub fn value(&self) -> &Value {
        let parse = || self.text.as_ref().and_then(|text| serde_json::from_str(text.get()).ok());
        self.value.get_or_init(|| parse().expect("a text is checked when the payload is created"))
    }

    /// Returns whether it contains the character NUL.
    pub fn has_nul(&self) -> bool {
        match &self.text {
            Some(text) => nul::in_json(text.get()),
            None => nul::in_value(self.value()),
        }
    }

    /// Returns the JSON text.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.text {
            Some(text) => text.get().into(),
            None => self.value().to_string().into(),
        }
    }
}

/// The properties that can make valid JSON unreadable.
#[derive(Default)]
struct JsonScan {
    deepest: usize,
    /// Whether it contains a number with an exponent or with more digits than the largest double, or an escaped
    /// surrogate, which may lack its other half.
    unusual: bool,
}

impl JsonScan {
    fn of(text: &[u8]) -> Self {
        let mut scan = Self::default();
        let (mut depth, mut digits, mut quoted, mut escaped) = (0_usize, 0, false, false);
        for (at, byte) in text.iter().enumerate() {
            let in_number = digits > 0;
            digits = if !quoted && byte.is_ascii_digit() { digits + 1 } else { 0 };
            scan.unusual |= digits > USUAL_DIGITS;
            match byte {
                _ if escaped => {
                    escaped = false;
                    scan.unusual |= is_surrogate(&text[at..]);
                }
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b'e' | b'E' if in_number => scan.unusual = true,
                b'{' | b'[' if !quoted => {
                    depth += 1;
                    scan.deepest = scan.deepest.max(depth);
                }
                b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        scan
    }
}

/// Returns whether the rest of an escape encodes half of a character: `u` and a number from D800 to DFFF.
fn is_surrogate(escape: &[u8]) -> bool {
    matches!(escape, [b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', ..])
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
    fn a_text_is_written_unchanged_and_parsed_when_it_is_accessed() {
        let payload = Payload::from_text(r#"{"b": 1,  "a": "x"}"#).unwrap();
        assert_eq!(serde_json::to_string(&payload).unwrap(), r#"{"b": 1,  "a": "x"}"#);
        assert_eq!(payload["b"], 1);
        assert_eq!(payload, Payload::from(json!({"a": "x", "b": 1})));
        assert_eq!(serde_json::to_value(&payload).unwrap(), json!({"a": "x", "b": 1}));
    }

    #[test]
    fn text_that_cannot_be_parsed_is_refused_at_creation() {
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

    #[test]
    fn an_unpaired_surrogate_is_refused_at_creation() {
        for half in [r#"{"a":"\ud800"}"#, r#"["\uDFFFx"]"#, r#"{"\ud800\ud800":1}"#, r#"["\udc00\ud800"]"#] {
            assert!(matches!(Payload::from_text(half), Err(PayloadError::NotJson(_))), "{half}");
        }
        assert_eq!(Payload::from_text(r#"["\ud83d\ude00"]"#).unwrap()[0], "😀");
        assert_eq!(Payload::from_text(r#"["\\ud800", "\u0041"]"#).unwrap()[0], r"\ud800");
    }

    proptest! {
        #[test]
        fn an_accepted_text_of_escapes_can_be_parsed(escapes in "(\\\\u[dD0][0-9a-fA-F]{3}|\\\\\\\\|x){0,6}") {
            let text = format!("[\"{escapes}\"]");
            let kept = Payload::from_text(&text).map(|payload| payload.value().clone());
            prop_assert_eq!(kept.ok(), serde_json::from_str::<Value>(&text).ok());
        }

        #[test]
        fn every_accepted_text_can_be_parsed(text in "([\\[\\]{}\",:.0-9aeE\\\\ -]|\\\\u[dD0][0-9a-f]{3}){0,40}") {
            if let Ok(payload) = Payload::from_text(&text) {
                prop_assert_eq!(payload.value(), &serde_json::from_str::<Value>(&text).unwrap());
            }
        }
    }
}
