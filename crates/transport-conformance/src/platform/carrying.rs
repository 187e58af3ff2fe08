//! What arrives is what was published, with everything around it.

use super::{
    PlatformLab,
    service::{Job, WORK},
    stage::{Stage, message, named, scope},
};
use onceward::{Actor, CorrelationId, NewMessage, Scope, envelope::TraceContext, outbox};
use serde_json::{Map, Value, json};

/// See the name.
pub async fn payloads_of_any_size_arrive(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let large = Job { filler: "ü".repeat(250 << 10), ..named("large") };
    let empty = NewMessage { payload: json!({}), ..message(&named("")) };
    stage.publish("acme", [empty.ordered_by("key"), message(&large).ordered_by("key")]).await;
    stage.publish("acme", [message(&named("after")).ordered_by("key")]).await;
    let effects = stage.effects_in_the_end(WORK, 3).await;
    let names: Vec<&str> = effects.iter().map(|effect| effect.name.as_str()).collect();
    assert_eq!(names, ["", "large", "after"]);
    assert_eq!(effects[0].envelope["payload"], json!({}));
    assert_eq!(effects[1].envelope["payload"]["filler"].as_str().map(str::len), Some(500 << 10));
}

/// See the name.
pub async fn everything_around_a_payload_arrives(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let extensions: Map<String, Value> = Map::from_iter([
        ("surveyId".to_owned(), json!("größe-数量-🦀")),
        ("nested".to_owned(), json!({"list": [1, null, true, "\"quoted\"\n"], "empty": {}})),
        ("empty".to_owned(), json!("")),
    ]);
    let trace = TraceContext::new_root();
    let whose = Scope {
        actor: Actor { user_id: Some("Zoë <zoe@example.org>".to_owned()), service: Some("conformance".to_owned()) },
        correlation_id: CorrelationId::new("story-42").expect("valid"),
        causation_id: Some("command-7".to_owned()),
        trace: Some(trace.clone()),
        ..scope("acme")
    };
    let name = "Grüße \u{1f980} \u{202e}x\t\"'\\";
    let sent = NewMessage { extensions: extensions.clone(), ..message(&named(name)) }.once_per("clé-1");
    let mut tx = stage.db().begin(whose).await.expect("a connection");
    let event_id = outbox::send(&mut tx, sent).await.expect("it is accepted");
    tx.commit().await.expect("it commits");
    let effects = stage.effects_in_the_end(WORK, 1).await;
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].name, name);
    assert_eq!(effects[0].trace.as_deref(), Some(trace.trace_id()));
    let envelope = &effects[0].envelope;
    assert_eq!(envelope["eventId"], json!(event_id));
    assert_eq!(envelope["type"], "conformance.job");
    assert_eq!(envelope["version"], 1);
    assert_eq!(envelope["correlationId"], "story-42");
    assert_eq!(envelope["causationId"], "command-7");
    assert_eq!(envelope["idempotencyKey"], "clé-1");
    assert_eq!(envelope["actor"], json!({"userId": "Zoë <zoe@example.org>", "service": "conformance"}));
    for (extension, value) in &extensions {
        assert_eq!(&envelope[extension], value, "{extension}");
    }
}
