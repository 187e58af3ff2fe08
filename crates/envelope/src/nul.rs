//! The one character that JSON can hold and PostgreSQL cannot.

use serde_json::Value;

/// Whether a JSON text holds NUL: it is the escape `\u0000` there, unless its backslash is itself escaped.
pub fn in_json(text: &str) -> bool {
    let escape = |at: usize| text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0;
    text.match_indices("\\u0000").any(|(at, _)| escape(at))
}

/// Whether a JSON value holds NUL, in a text or in a name.
pub fn in_value(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(in_value),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || in_value(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn an_escaped_nul_is_told_from_text_that_looks_like_one() {
        let of = |text: &str| json!({ "a": [text] });
        for (text, expected) in
            [("a\0b", true), ("\\\0", true), ("\\u0000", false), ("\\\\u0000", false), ("u0000", false)]
        {
            assert_eq!((in_value(&of(text)), in_json(&of(text).to_string())), (expected, expected), "{text:?}");
        }
        assert!(in_value(&json!({ "a\0": 1 })));
    }

    proptest! {
        #[test]
        fn text_and_value_agree(text in "[\\\\u0\u{0}\"]{0,12}") {
            let value = json!({ "a": text });
            prop_assert_eq!(in_json(&value.to_string()), in_value(&value));
        }
    }
}
