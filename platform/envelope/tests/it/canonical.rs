//! RFC 8785: the RFC's own examples, and properties that must hold for any value.

use onceward_envelope::canonical::{CanonicalError, format_number, to_string};
use proptest::prelude::*;
use serde_json::{Value, json};

fn canonical(text: &str) -> String {
    to_string(&serde_json::from_str(text).unwrap()).unwrap()
}

/// Appendix B of the RFC: the bits of a double and its text.
#[test]
fn numbers_are_written_as_in_the_table_of_the_rfc() {
    let table = [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7fefffffffffffff, "1.7976931348623157e+308"),
        (0xffefffffffffffff, "-1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xc340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44b52d02c7e14af5, "9.999999999999997e+22"),
        (0x44b52d02c7e14af6, "1e+23"),
        (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
        (0x444b1ae4d6e2ef4e, "999999999999999700000"),
        (0x444b1ae4d6e2ef4f, "999999999999999900000"),
        (0x444b1ae4d6e2ef50, "1e+21"),
        (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
        (0x3eb0c6f7a0b5ed8d, "0.000001"),
        (0x41b3de4355555553, "333333333.3333332"),
        (0x41b3de4355555554, "333333333.33333325"),
        (0x41b3de4355555555, "333333333.3333333"),
        (0x41b3de4355555556, "333333333.3333334"),
        (0x41b3de4355555557, "333333333.33333343"),
        (0xbecbf647612f3696, "-0.0000033333333333333333"),
        (0x43143ff3c1cb0959, "1424953923781206.2"),
    ];
    for (bits, text) in table {
        assert_eq!(format_number(f64::from_bits(bits)).as_deref(), Some(text), "{bits:016x}");
    }
    assert_eq!(format_number(f64::NAN), None);
    assert_eq!(format_number(f64::INFINITY), None);
}

/// Section 3.2.2 of the RFC.
#[test]
fn the_example_of_the_rfc_has_the_documented_form() {
    let input = r#"{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"#;
    let expected = concat!(
        r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
        r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
    );
    assert_eq!(canonical(input), expected);
}

/// Section 3.2.3 of the RFC: the emoji sorts before U+FB33, as its first UTF-16 unit is smaller.
#[test]
fn keys_are_sorted_by_utf16_units() {
    let input = json!({
        "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew Letter Dalet With Dagesh",
        "1": "One", "\u{1f600}": "Emoji: Grinning Face", "\u{80}": "Control", "\u{f6}": "Latin Small Letter O"
    });
    let text = to_string(&input).unwrap();
    let order = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
    let places: Vec<_> = order.iter().map(|name| text.find(name).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn literals_and_escapes_have_one_form() {
    assert_eq!(canonical("-0"), "0");
    assert_eq!(canonical("-0.0"), "0");
    assert_eq!(canonical("1E30"), "1e+30");
    assert_eq!(canonical("10.0"), "10");
    assert_eq!(canonical("[ ]"), "[]");
    assert_eq!(canonical("{ }"), "{}");
    assert_eq!(canonical(r#""\u0008\u000c\u001f\u007f""#), "\"\\b\\f\\u001f\u{7f}\"");
    assert_eq!(canonical("9007199254740992"), "9007199254740992");
}

#[test]
fn an_integer_beyond_two_to_the_53_is_refused_in_every_notation() {
    for text in ["9007199254740993", "-9007199254740993", "1e17", "18446744073709551615", "3e20"] {
        let value: Value = serde_json::from_str(&format!(r#"{{"a/b":[0,{text}]}}"#)).unwrap();
        let error = to_string(&value).unwrap_err();
        assert_eq!(error, CanonicalError::IntegerTooLarge { path: "/a~1b/1".into() });
        assert!(error.to_string().contains("send it as a string"));
        assert!(!error.to_string().contains(text));
    }
    assert_eq!(canonical("1e21"), "1e+21");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1i64 << 53)..=1 << 53).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-1e6..1e6).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            proptest::collection::hash_map(any::<String>(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn reading_a_canonical_text_and_writing_it_again_changes_nothing(value in any_json()) {
        if let Ok(once) = to_string(&value) {
            let read: Value = serde_json::from_str(&once).unwrap();
            prop_assert_eq!(to_string(&read).unwrap(), once);
        }
    }

    #[test]
    fn the_text_does_not_depend_on_how_the_value_travelled(value in any_json()) {
        if let Ok(once) = to_string(&value) {
            let travelled: Value = serde_json::from_str(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
            prop_assert_eq!(to_string(&travelled).unwrap(), once);
        }
    }

    #[test]
    fn every_double_reads_back_as_itself(number in any::<f64>()) {
        if let Some(text) = format_number(number) {
            prop_assert_eq!(text.parse::<f64>().unwrap(), number);
        }
    }
}
