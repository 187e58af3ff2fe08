//! Detects NUL, the one character that JSON can represent and PostgreSQL cannot store.

use serde_json::Value;

/// Returns whether a JSON text contains NUL: the escape `\u0000`, unless its backslash is itself escaped.
pub fn in_json(text: &str) -> bool {
    let escape = |at: usize| text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0;
    text.match_indices("\\u0000").any(|(at, _)| escape(at))
}

/// Returns whether a JSON value contains NUL, in a string or in a member name.
pub fn in_value(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(in_value),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || in_value(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns a JSON pointer to the first string that contains NUL, or to the object with such a member name.
pub fn path_in_value(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(String::new),
        Value::Array(values) => values.iter().enumerate().find_map(|(index, value)| {
            let path = path_in_value(value)?;
            Some(format!("/{index}{path}"))
        }),
        Value::Object(fields) if fields.keys().any(|name| name.contains('\0')) => Some(String::new()),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let path = path_in_value(value)?;
            Some(format!("/{}{path}", name.replace('~', "~0").replace('/', "~1")))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn an_escaped_nul_is_distinguished_from_text_that_looks_like_one() {
        let of = |text: &str| json!({ "a": [text] });
        for (text, expected) in
            [("a\0b", true), ("\\\0", true), ("\\u0000", false), ("\\\\u0000", false), ("u0000", false)]
        {
            assert_eq!((in_value(&of(text)), in_json(&of(text).to_string())), (expected, expected), "{text:?}");
        }
        assert!(in_value(&json!({ "a\0": 1 })));
    }

    #[test]
    fn a_nul_is_located_by_a_json_pointer() {
        let value = json!({ "note": "fine", "a/b": [{ "text": "a\0b" }] });
        assert_eq!(path_in_value(&value).as_deref(), Some("/a~1b/0/text"));
        assert_eq!(value.pointer("/a~1b/0/text"), Some(&json!("a\0b")));
        assert_eq!(path_in_value(&json!({ "a": { "b\0": 1 } })).as_deref(), Some("/a"));
        assert_eq!(path_in_value(&json!("\\u0000")), None);
    }

    proptest! {
        #[test]
        fn text_and_value_agree(text in "[\\\\u0\u{0}\"]{0,12}") {
            let value = json!({ "a": text });
            prop_assert_eq!(in_json(&value.to_string()), in_value(&value));
            prop_assert_eq!(path_in_value(&value).is_some(), in_value(&value));
        }
    }
}
