//! Contracts: which payloads are accepted, which are rejected, and how violations are reported.

use onceward_envelope::{RegistryError, SchemaError, SchemaRegistry, Violation};
use serde_json::{Value, json};

fn payment() -> Value {
    json!({
        "$id": "payment.posted.v1",
        "type": "object",
        "required": ["amountMinor", "currency"],
        "additionalProperties": false,
        "properties": {
            "amountMinor": {"type": "string", "pattern": "^\\d+$"},
            "currency": {"enum": ["EUR", "USD"]},
            "email": {"type": "string", "format": "email"},
            "loanId": {"type": "string", "format": "uuid"},
            "dueOn": {"type": "string", "format": "date"},
            "postedAt": {"type": "string", "format": "date-time"},
            "note": {"type": ["string", "null"], "maxLength": 5},
            "lines": {"type": "array", "maxItems": 2, "items": {"type": "object", "required": ["n"]}},
            "share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
        }
    })
}

fn registry() -> SchemaRegistry {
    SchemaRegistry::builder().add(payment()).unwrap().build().unwrap()
}

/// Returns the violations of a valid payment with some fields replaced.
fn violations(changes: Value) -> Vec<(String, String)> {
    let mut value = json!({"amountMinor": "1", "currency": "EUR"});
    for (name, change) in changes.as_object().unwrap() {
        value[name] = change.clone();
    }
    match registry().validate("payment.posted.v1", &value) {
        Err(SchemaError::Violations { violations, .. }) => {
            violations.into_iter().map(|Violation { path, message }| (path, message)).collect()
        }
        other => panic!("expected violations, got {other:?}"),
    }
}

#[track_caller]
fn check(changes: Value, path: &str, message: &str) {
    assert_eq!(violations(changes), [(path.to_owned(), message.to_owned())]);
}

#[test]
fn a_value_that_satisfies_its_contract_is_accepted() {
    let value = json!({
        "amountMinor": "100", "currency": "EUR", "email": "a@example.org", "note": null, "share": 0.5,
        "loanId": "018f5d3e-7c1b-7000-8000-000000000001", "dueOn": "2025-02-28", "postedAt": "2025-02-28T12:00:00Z"
    });
    registry().validate("payment.posted.v1", &value).unwrap();
}

#[test]
fn a_violation_names_the_rule_and_the_field() {
    check(json!({"amountMinor": "1.5"}), "/amountMinor", r"must match ^\d+$");
    check(json!({"currency": "XXX"}), "/currency", r#"must be one of "EUR", "USD""#);
    check(json!({"note": 1}), "/note", "must be null or string");
    check(json!({"note": "too long"}), "/note", "must be at most 5 characters long");
    check(json!({"share": -1}), "/share", "must be at least 0");
    check(json!({"share": 1}), "/share", "must be less than 1");
    check(json!({"lines": [{"n": 1}, {}]}), "/lines/1/n", r#""n" is required"#);
    check(json!({"a/b": 1}), "/a~1b", r#"unknown field "a/b""#);
}

#[test]
fn formats_are_checked() {
    check(json!({"email": "nobody"}), "/email", "must be a valid email");
    check(json!({"loanId": "1"}), "/loanId", "must be a valid uuid");
    check(json!({"dueOn": "2025-02-30"}), "/dueOn", "must be a valid date");
    check(json!({"postedAt": "yesterday"}), "/postedAt", "must be a valid date-time");
}

#[test]
fn a_missing_field_is_reported_by_its_path() {
    let error = registry().validate("payment.posted.v1", &json!({"currency": "EUR"})).unwrap_err();
    let SchemaError::Violations { violations, .. } = &error else { panic!("{error}") };
    assert_eq!(violations[0].path, "/amountMinor");
    assert_eq!(violations[0].message, r#""amountMinor" is required"#);
    assert!(error.to_string().contains("payment.posted.v1: /amountMinor: "));
}

#[test]
fn no_violation_repeats_a_value() {
    let secret = json!({
        "amountMinor": "jane", "currency": "jane", "email": "jane", "loanId": "jane", "dueOn": "jane",
        "postedAt": "jane", "note": "jane doe", "lines": ["jane", "jane", "jane"], "share": "jane"
    });
    let error = registry().validate("payment.posted.v1", &secret).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("jane"), "{error}");
}

#[test]
fn composed_schemas_do_not_repeat_a_value_either() {
    let schema = json!({
        "$id": "composed.v1",
        "allOf": [
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            {"oneOf": [{"const": 1}, {"const": 2}]},
            {"not": {"type": "string"}},
            {"const": {"a": 1}}
        ]
    });
    let registry = SchemaRegistry::builder().add(schema).unwrap().build().unwrap();
    let error = registry.validate("composed.v1", &json!("jane")).unwrap_err();
    let SchemaError::Violations { violations, .. } = &error else { panic!("{error}") };
    assert_eq!(violations.len(), 4);
    assert!(!format!("{error} {error:?}").contains("jane"), "{error}");
}

#[test]
fn an_untrusted_field_name_is_truncated_and_escaped() {
    let found = violations(json!({ ("x\n".to_owned() + &"y".repeat(500)): 1 }));
    assert!(found[0].1.starts_with(r#"unknown field "x\ny"#));
    assert!(found[0].1.chars().count() < 120);
}

#[test]
fn no_more_than_twenty_violations_are_listed() {
    let many: serde_json::Map<_, _> = (0..50).map(|n| (format!("f{n}"), json!(n))).collect();
    assert_eq!(violations(Value::Object(many)).len(), 20);
}

#[test]
fn an_unknown_contract_is_an_error() {
    let error = registry().validate("payment.posted.v9", &json!({})).unwrap_err();
    assert_eq!(error, SchemaError::Unknown { schema_id: "payment.posted.v9".into() });
}

#[test]
fn a_registry_lists_what_it_knows() {
    let schema = |id: &str| json!({"$id": id, "type": "object"});
    let ids = ["b.v10", "b.v2", "a.v1", "b.c.v1", "address"];
    let builder = ids.iter().try_fold(SchemaRegistry::builder(), |builder, id| builder.add(schema(id)));
    let registry = builder.unwrap().build().unwrap();
    assert_eq!(registry.ids(), ["a.v1", "address", "b.c.v1", "b.v10", "b.v2"]);
    assert_eq!(registry.versions_of("b"), [2, 10]);
    assert!(registry.versions_of("address").is_empty());
    assert_eq!(registry.get("a.v1"), Some(&schema("a.v1")));
    assert!(registry.clone().contains("b.v2"));
    assert!(!registry.contains("b"));
}

#[test]
fn the_same_contract_may_be_added_twice_but_not_changed() {
    let again = SchemaRegistry::builder().add(payment()).unwrap().add_json(&payment().to_string());
    let mut changed = payment();
    changed["required"] = json!([]);
    let error = again.unwrap().add(changed).unwrap_err();
    assert_eq!(error, RegistryError::Conflict { schema_id: "payment.posted.v1".into() });
}

#[test]
fn a_contract_may_refer_to_another_one_of_the_registry() {
    let order = json!({
        "$id": "order.placed.v1",
        "type": "object",
        "properties": {"price": {"$ref": "money.v1"}, "tax": {"$ref": "money.v1#/properties/amountMinor"}}
    });
    let money = json!({"$id": "money.v1", "type": "object", "properties": {"amountMinor": {"type": "string"}}});
    let registry = SchemaRegistry::builder().add(order).unwrap().add(money).unwrap().build().unwrap();
    let check = |value: Value| registry.validate("order.placed.v1", &value);
    check(json!({"price": {"amountMinor": "1"}, "tax": "1"})).unwrap();
    assert!(check(json!({"price": {"amountMinor": 1}})).is_err());
    assert!(check(json!({"tax": 1})).is_err());
}

#[test]
fn invalid_schemas_are_reported_when_the_registry_is_built() {
    let build = |schema: Value| SchemaRegistry::builder().add(schema).and_then(|b| b.build()).unwrap_err();
    assert_eq!(build(json!({"type": "object"})), RegistryError::MissingId);
    for bad in [
        json!({"$id": "bad.v1", "type": "objekt"}),
        json!({"$id": "bad.v1", "pattern": "("}),
        json!({"$id": "bad.v1", "$ref": "https://example.org/remote.json"}),
        json!({"$id": "bad.v1", "$ref": "absent.v1"}),
        json!({"$id": "bad.v1", "format": "emial"}),
    ] {
        let error = build(bad.clone());
        assert!(matches!(&error, RegistryError::Invalid { schema_id, .. } if schema_id == "bad.v1"), "{bad}: {error}");
    }
    assert!(matches!(SchemaRegistry::builder().add_json("{"), Err(RegistryError::NotJson { .. })));
}
