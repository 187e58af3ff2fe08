//! Messages arrive as they were published, with all metadata.

use super::{
    PlatformHarness,
    fixture::{PlatformFixture, job, message, message_to, tenant_scope},
    service::{Job, WIRE, WORK},
    store,
};
use crate::broker::fixture::left_out;
use onceward::{
    Actor, CorrelationId, Event, NewMessage, Scope,
    broker::{Arrival, ReceiveOptions},
    envelope::TraceContext,
    outbox,
};
use onceward_testkit::PATIENCE;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};
use tokio::time::timeout;

pub async fn payloads_of_any_size_arrive(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let large = Job { filler: "ü".repeat(250 << 10), ..job("large") };
    let empty = NewMessage { payload: json!({}), ..message(&job("")) };
    fixture.publish("acme", [empty.ordered_by("key"), message(&large).ordered_by("key")]).await;
    fixture.publish("acme", [message(&job("after")).ordered_by("key")]).await;
    let effects = fixture.final_effects(WORK, 3).await;
    let names: Vec<&str> = effects.iter().map(|effect| effect.name.as_str()).collect();
    assert_eq!(names, ["", "large", "after"]);
    assert_eq!(effects[0].envelope["payload"], json!({}));
    assert_eq!(effects[1].envelope["payload"]["filler"].as_str().map(str::len), Some(500 << 10));
}

pub async fn all_metadata_of_a_message_arrives(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let extensions: Map<String, Value> = Map::from_iter([
        ("surveyId".to_owned(), json!("größe-数量-🦀")),
        ("nested".to_owned(), json!({"list": [1, null, true, "\"quoted\"\n"], "empty": {}})),
        ("empty".to_owned(), json!("")),
    ]);
    let state = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7";
    let trace = TraceContext::new_root().with_state(Some(state));
    let scope = Scope {
        actor: Actor { user_id: Some("Zoë <zoe@example.org>".to_owned()), service: Some("conformance".to_owned()) },
        correlation_id: CorrelationId::new("story-42").expect("valid"),
        causation_id: Some("command-7".to_owned()),
        trace: Some(trace.clone()),
        ..tenant_scope("acme")
    };
    let name = "Grüße \u{1f980} \u{202e}x\t\"'\\";
    let sent = NewMessage { extensions: extensions.clone(), ..message(&job(name)) }.once_per("clé-1");
    let mut tx = fixture.db().begin(scope).await.expect("a connection");
    let event_id = outbox::send(&mut tx, sent).await.expect("the message is accepted");
    tx.commit().await.expect("the transaction commits");
    let effects = fixture.final_effects(WORK, 1).await;
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].name, name);
    assert_eq!(effects[0].trace.as_deref(), Some(trace.trace_id()));
    assert_eq!(effects[0].trace_state.as_deref(), Some(state));
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

/// This includes a schedule's tick, and a message that was published with SQL and does not belong to a trace yet.
pub async fn headers_name_the_message_its_story_and_its_trace_on_the_bus(harness: &dyn PlatformHarness) {
    if harness.bus_url().is_none() {
        return left_out("on PostgreSQL a message has columns instead of headers");
    }
    let fixture = PlatformFixture::running(harness).await;
    let broker = fixture.broker().await;
    let scheduler = fixture.start_scheduler();
    fixture.publish("acme", [message_to(&job("published"), "seen")]).await;
    store::enqueue(&fixture.owner, "acme", "conformance.events:tenant.acme.seen", Job::TYPE, &json!({"name": "sql"}))
        .await;
    let reading = ReceiveOptions { queue: WIRE.to_owned(), exclusive: true, prefetch: 10 };
    let opened = timeout(PATIENCE, broker.open(reading)).await.expect("the broker responds in time");
    let mut receiver = opened.expect("the queue can be read");
    let (mut seen, deadline) = (BTreeSet::new(), Instant::now() + PATIENCE);
    while seen.len() < 3 {
        assert!(Instant::now() < deadline, "only {seen:?} arrived");
        let batch = receiver.receive(10, Duration::from_secs(1)).await.expect("the queue can be read");
        seen.extend(batch.iter().map(check_headers));
        receiver.accept().await.expect("the message is accepted");
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["conformance.tick", "published", "sql"]);
    scheduler.stop().await;
}

/// Checks the headers of a message. Returns the name of its job, or its type.
fn check_headers(arrival: &Arrival) -> String {
    let body: Value = serde_json::from_slice(&arrival.body).expect("an envelope");
    let header = |name: &str| arrival.header(name).unwrap_or_else(|| panic!("{name} is missing: {arrival:?}"));
    let text = |name: &str| body[name].as_str().expect("a text").to_owned();
    assert_eq!(header("x-message-id"), text("eventId"));
    assert_eq!(header("x-correlation-id"), text("correlationId"));
    assert_eq!(header("x-schema"), format!("{}.v{}", text("type"), body["version"]));
    let trace = header("x-trace-id");
    assert!(trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()), "{trace}");
    assert!(header("traceparent").starts_with(&format!("00-{trace}-")), "{arrival:?}");
    body["payload"]["name"].as_str().map_or_else(|| text("type"), str::to_owned)
}
