//! Deliveries continue the trace of their event, and are part of its story.

use crate::support::{ItemSold, WebhookReceiver, WebhooksFixture, settings};
use onceward::{Scope, TenantId, envelope::TraceContext, outbox};
use onceward_cli::story::{self, StorySearch};
use onceward_testkit::eventually;
use onceward_webhooks::{
    WebhookSecret,
    client::{WebhookClient, WebhookMessage},
};
use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use tracing_subscriber::layer::SubscriberExt;

/// Collects exported spans.
#[derive(Clone, Debug, Default)]
struct SpanCollector(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for SpanCollector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().extend(batch);
        Ok(())
    }
}

/// The `tracestate` of an external request.
const STATE: &str = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7";

/// Publishes an event in a new trace, and returns the trace.
async fn publish_sale_in_trace(fixture: &WebhooksFixture) -> TraceContext {
    let trace = TraceContext::new_root().with_state(Some(STATE));
    let scope = Scope { trace: Some(trace.clone()), ..Scope::for_tenant(TenantId::new("acme").unwrap()) };
    let mut tx = fixture.platform.db().begin(scope).await.unwrap();
    outbox::publish(&mut tx, &ItemSold { number: 1 }).await.unwrap();
    tx.commit().await.unwrap();
    trace
}

#[tokio::test]
async fn the_exported_span_of_a_request_is_a_child_of_its_events_span() {
    let spans = SpanCollector::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    // With only one subscriber, a span that another test reaches first, on a thread without one, is disabled for the
    // whole process. With a second one, every subscriber is asked.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    // Applies to this thread, on which the whole test runs.
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let fixture = WebhooksFixture::start(settings()).await;
    fixture.create_endpoint("acme", "ok").await;
    let trace = publish_sale_in_trace(&fixture).await;
    let request = fixture.receiver.wait_for("ok", 1).await.remove(0);
    let call = eventually("the span of the request is exported", || async {
        spans.0.lock().iter().find(|span| span.name == "webhook").cloned()
    })
    .await;
    assert_eq!(call.span_kind, SpanKind::Client);
    assert_eq!(call.span_context.trace_id().to_string(), trace.trace_id());
    assert_eq!(call.parent_span_id.to_string(), trace.span_id());
    let sent = TraceContext::parse(&request.traceparent).expect("a traceparent");
    assert_eq!(sent.span_id(), call.span_context.span_id().to_string(), "the receiver continues from this span");
    assert_eq!(request.tracestate, STATE);
}

#[tokio::test]
async fn a_request_continues_the_trace_of_its_event() {
    let fixture = WebhooksFixture::start(settings()).await;
    fixture.create_endpoint("acme", "flaky").await;
    let trace = publish_sale_in_trace(&fixture).await;
    let requests = fixture.receiver.wait_for("flaky", 3).await;
    let steps: Vec<TraceContext> =
        requests.iter().map(|request| TraceContext::parse(&request.traceparent).expect("a traceparent")).collect();
    assert!(steps.iter().all(|step| step.trace_id() == trace.trace_id()), "{steps:?}");
    assert!(steps.iter().all(|step| step.span_id() != trace.span_id()), "{steps:?}");
    assert_ne!(steps[0].span_id(), steps[1].span_id(), "each attempt has its own span");
    assert!(requests.iter().all(|request| request.tracestate == STATE), "{requests:?}");
}

#[tokio::test]
async fn traceparent_and_tracestate_are_passed_on() {
    let (receiver, secrets) = (WebhookReceiver::start().await, [WebhookSecret::generate()]);
    let trace = TraceContext::new_root().with_state(Some(STATE));
    let message = WebhookMessage { id: "1", body: "{}", secrets: &secrets, trace: Some(&trace) };
    let result = WebhookClient::new(&settings()).expect("a client").send(&receiver.url("ok"), &message).await;
    assert!(result.is_success(), "{result:?}");
    let request = &receiver.requests("ok")[0];
    assert_eq!((request.traceparent.as_str(), request.tracestate.as_str()), (trace.traceparent(), STATE));
}

#[tokio::test]
async fn the_story_of_an_event_contains_its_deliveries_and_their_attempts() {
    let fixture = WebhooksFixture::start(settings()).await;
    // Not all types: this endpoint would also receive the event that the other endpoint was disabled, and fail on it.
    let (flaky, _) = fixture.create_endpoint_with("acme", "flaky", json!({ "event_types": ["shop.*"] })).await;
    let (gone, _) = fixture.create_endpoint("acme", "gone").await;
    let scope = Scope::for_tenant(TenantId::new("acme").unwrap());
    let correlation = scope.correlation_id.to_string();
    let mut tx = fixture.platform.db().begin(scope).await.unwrap();
    outbox::publish(&mut tx, &ItemSold { number: 1 }).await.unwrap();
    tx.commit().await.unwrap();
    fixture.wait_for_deliveries("acme", &flaky, "delivered", 1).await;
    fixture.wait_for_deliveries("acme", &gone, "failed", 1).await;

    let reading =
        story::load(fixture.platform.db(), fixture.platform.platform(), None, StorySearch::new(&correlation), |_| {});
    let story = reading.await.unwrap();
    let message = story.messages.iter().find(|message| message.event_type == "shop.sold.v1").expect("the event");
    let of = |endpoint: &str| {
        let contribution =
            message.contributions.iter().find(|contribution| contribution.data["endpoint_id"] == endpoint);
        contribution.expect("each delivery contributes").data.clone()
    };
    assert!(message.contributions.iter().all(|contribution| contribution.service == "webhooks"));
    let (flaky, gone) = (of(&flaky), of(&gone));
    assert_eq!((flaky["state"].as_str(), flaky["attempts"].as_i64()), (Some("delivered"), Some(3)));
    let statuses: Vec<_> = flaky["log"].as_array().unwrap().iter().map(|attempt| attempt["status"].as_i64()).collect();
    assert_eq!(statuses, [Some(502), Some(502), Some(200)], "in order");
    assert_eq!(gone["state"], "failed");
    let words = story::render(&story);
    assert!(words.contains("delivered after 3 attempts") && words.contains("attempt 2 at"), "{words}");
    assert!(!words.contains("/flaky"), "the path of a URL may contain a secret: {words}");
}
