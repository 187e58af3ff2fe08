//! The envelope's one JSON form and its headers.

use onceward_envelope::{
    Actor, CorrelationId, Envelope, EnvelopeError, EventType, IdempotencyKey, TenantId, TraceContext,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn sample() -> Envelope {
    let mut extensions = Map::new();
    extensions.insert("surveyId".into(), json!("s-1"));
    extensions.insert("sessionId".into(), json!(7));
    Envelope {
        event_id: "018f5d3e-7c1b-7000-8000-000000000001".parse().unwrap(),
        event_type: EventType::new("payment.posted", 1).unwrap(),
        schema_version: 1,
        tenant_id: TenantId::new("acme").unwrap(),
        correlation_id: CorrelationId::new("c-1").unwrap(),
        causation_id: Some("e-0".into()),
        idempotency_key: IdempotencyKey::new("k-1").unwrap(),
        actor: Some(Actor { user_id: Some("u-1".into()), service: None }),
        occurred_at: "2025-01-31T12:00:00.123456Z".parse().unwrap(),
        extensions,
        payload: json!({"amountMinor": "100"}).into(),
        trace: None,
    }
}

/// Parses the sample with one field replaced, or removed if `value` is `None`.
fn with(field: &str, value: Option<Value>) -> Result<Envelope, EnvelopeError> {
    let mut json = sample().to_value().unwrap();
    let map = json.as_object_mut().unwrap();
    match value {
        Some(value) => map.insert(field.into(), value),
        None => map.remove(field),
    };
    Envelope::from_json_bytes(json.to_string().as_bytes())
}

#[test]
fn the_json_form_is_the_published_contract() {
    let text = String::from_utf8(sample().to_json_bytes().unwrap()).unwrap();
    let expected = concat!(
        r#"{"eventId":"018f5d3e-7c1b-7000-8000-000000000001","type":"payment.posted","version":1,"#,
        r#""schemaVersion":1,"tenantId":"acme","correlationId":"c-1","causationId":"e-0","#,
        r#""idempotencyKey":"k-1","actor":{"userId":"u-1"},"occurredAt":"2025-01-31T12:00:00.123456Z","#,
        r#""surveyId":"s-1","sessionId":7,"payload":{"amountMinor":"100"}}"#
    );
    assert_eq!(text, expected);
    assert_eq!(Envelope::from_json_bytes(text.as_bytes()).unwrap(), sample());
}

#[test]
fn absent_fields_are_omitted_and_null_counts_as_absent() {
    let bare = Envelope { causation_id: None, actor: None, extensions: Map::new(), ..sample() };
    let json = bare.to_value().unwrap();
    assert_eq!(json.get("causationId"), None);
    assert_eq!(json.get("actor"), None);
    assert_eq!(with("actor", Some(Value::Null)).unwrap().actor, None);
    assert_eq!(with("causationId", Some(Value::Null)).unwrap().causation_id, None);
}

#[test]
fn headers_carry_the_trace_only_if_there_is_one() {
    let plain = [
        ("x-message-id", "018f5d3e-7c1b-7000-8000-000000000001"),
        ("x-correlation-id", "c-1"),
        ("x-schema", "payment.posted.v1"),
    ];
    assert_eq!(sample().headers().iter().collect::<Vec<_>>(), plain);
    let traced = Envelope { trace: TraceContext::parse(TRACEPARENT), ..sample() };
    let headers = traced.headers();
    let headers: Vec<_> = headers.iter().collect();
    assert_eq!(headers[..3], plain);
    assert_eq!(headers[3], ("x-trace-id", "4bf92f3577b34da6a3ce929d0e0e4736"));
    assert_eq!(headers[4], ("traceparent", TRACEPARENT));
    assert!(!traced.to_value().unwrap().to_string().contains("4bf92f"));
}

#[test]
fn a_missing_required_field_is_reported_by_name() {
    let required = [
        "eventId",
        "type",
        "version",
        "schemaVersion",
        "tenantId",
        "correlationId",
        "idempotencyKey",
        "occurredAt",
        "payload",
    ];
    for field in required {
        let error = with(field, None).unwrap_err();
        assert_eq!(error, EnvelopeError::Missing { field });
        assert!(error.to_string().contains(field));
    }
}

#[test]
fn an_invalid_field_is_reported_by_name_without_its_value() {
    let cases = [
        ("eventId", json!("jane")),
        ("eventId", json!(1)),
        ("type", json!("jane doe")),
        ("type", json!("payment.posted.v1")),
        ("version", json!(0)),
        ("version", json!(70_000)),
        ("version", json!("1")),
        ("schemaVersion", json!(0)),
        ("tenantId", json!("jane.doe")),
        ("correlationId", json!("jane\n")),
        ("causationId", json!(["jane"])),
        ("idempotencyKey", json!("")),
        ("actor", json!("jane")),
        ("actor", json!({"userId": 1})),
        ("actor", json!(["jane", "doe"])),
        ("occurredAt", json!("2025-01-31 jane")),
        ("occurredAt", json!(1_700_000_000)),
    ];
    for (name, value) in cases {
        let error = with(name, Some(value.clone())).unwrap_err();
        assert!(matches!(error, EnvelopeError::Invalid { field, .. } if field == name), "{name} {value}: {error}");
        assert!(!error.to_string().contains("jane"), "{error}");
    }
}

#[test]
fn a_newer_envelope_is_distinguished_from_a_malformed_one() {
    let error = with("schemaVersion", Some(json!(2))).unwrap_err();
    assert_eq!(error, EnvelopeError::NewerSchemaVersion { found: 2, supported: 1 });
}

#[test]
fn an_extension_cannot_shadow_a_field() {
    let mut envelope = sample();
    envelope.extensions.insert("tenantId".into(), json!("other"));
    let error = envelope.to_json_bytes().unwrap_err();
    assert_eq!(error, EnvelopeError::ReservedExtension { name: "tenantId".into() });
    assert!(serde_json::to_string(&envelope).is_err());
}

#[test]
fn bytes_that_are_not_an_envelope_are_refused_without_being_quoted() {
    let error = Envelope::from_json_bytes(b"{\n\"jane\": x}").unwrap_err();
    assert_eq!(error, EnvelopeError::NotJson { line: 2, column: 9 });
    assert_eq!(Envelope::from_json_bytes(b"[1]").unwrap_err(), EnvelopeError::NotAnObject);
    assert!(Envelope::from_json_bytes(b"").is_err());
    assert!(Envelope::from_json_bytes(b"{\"a\":\"\xff\"}").is_err());
}

proptest! {
    #[test]
    fn any_envelope_reads_back_as_it_was_written(
        tenant in "[A-Za-z0-9_-]{1,64}",
        correlation in "[!-~]{1,255}",
        key in "[!-~éß漢]{1,255}",
        causation in proptest::option::of(any::<String>()),
        actor in proptest::option::of((proptest::option::of(any::<String>()), proptest::option::of(any::<String>()))),
        micros in 0..4_000_000_000_000_000i64,
        version in 1..=u16::MAX,
        text in any::<String>(),
    ) {
        let envelope = Envelope {
            tenant_id: TenantId::new(tenant).unwrap(),
            correlation_id: CorrelationId::new(correlation).unwrap(),
            idempotency_key: IdempotencyKey::new(key).unwrap(),
            causation_id: causation,
            actor: actor.map(|(user_id, service)| Actor { user_id, service }),
            occurred_at: jiff::Timestamp::from_microsecond(micros).unwrap(),
            event_type: EventType::new("a.b", version).unwrap(),
            payload: json!({ "text": text }).into(),
            ..sample()
        };
        let bytes = envelope.to_json_bytes().unwrap();
        prop_assert_eq!(&Envelope::from_json_bytes(&bytes).unwrap(), &envelope);
        prop_assert_eq!(&serde_json::from_slice::<Envelope>(&bytes).unwrap(), &envelope);
        prop_assert_eq!(bytes, serde_json::to_vec(&envelope).unwrap());
    }

    #[test]
    fn no_input_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), header in any::<String>()) {
        let _ = Envelope::from_json_bytes(&bytes);
        let _ = TraceContext::parse(&header);
    }
}
