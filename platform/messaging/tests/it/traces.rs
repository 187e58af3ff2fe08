//! Traces: every message belongs to one, from its publisher to everything it caused.

use crate::support::{Job, Probe, QUEUE, consumer, drained, effects_reach, job, one_lane, platform, running, scope};
use onceward::{
    BatchHandler, Consumer, Failure, InBatch, Scope, Tx,
    envelope::{IdText, TraceContext},
    outbox,
    spans::{client_span, context_of},
};
use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::{Arc, OnceLock};
use tokio_postgres::Client;
use tracing_subscriber::layer::SubscriberExt;
use uuid::Uuid;

/// A handler that replies to "question" with "answer".
fn answering() -> Probe {
    let (probe, _calls) = Probe::new(|tx, seen| {
        Box::pin(async move {
            if seen.name == "question" {
                outbox::send(tx, job("acme", "answer")).await?;
            }
            Ok(())
        })
    });
    probe
}

async fn headers_of_answer(owner: &Client) -> serde_json::Value {
    let sql = "SELECT headers::jsonb FROM onceward.message_log WHERE payload->>'name' = 'answer'";
    owner.query_one(sql, &[]).await.expect("one reply").get(0)
}

#[tokio::test]
async fn the_tracestate_of_other_systems_is_passed_on_unchanged() {
    let platform = running(one_lane(), consumer(answering())).await;
    let owner = platform.database().owner().await;
    let state = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7";
    let trace = TraceContext::new_root().with_state(Some(state));
    let traced = Scope { trace: Some(trace.clone()), ..scope("acme") };
    let mut tx = platform.db().begin(traced).await.expect("a connection");
    outbox::send(&mut tx, job("acme", "question")).await.expect("it is accepted");
    tx.commit().await.expect("it commits");
    effects_reach(&owner, 2).await;
    let headers = headers_of_answer(&owner).await;
    assert_eq!(headers["tracestate"], state);
    assert_eq!(TraceContext::parse(headers["traceparent"].as_str().unwrap()).unwrap().trace_id(), trace.trace_id());
}

#[tokio::test]
async fn a_message_published_from_sql_has_a_trace_that_continues() {
    let platform = running(one_lane(), consumer(answering())).await;
    let owner = platform.database().owner().await;
    let story = Uuid::now_v7().to_string();
    let enqueue = "SELECT onceward.enqueue('acme', 'probe.events:tenant.acme.job', 'probe.job.v1', $1, NULL, NULL, $2)";
    owner.execute(enqueue, &[&json!({"name": "question"}), &story]).await.expect("it is accepted");
    effects_reach(&owner, 2).await;
    let headers = headers_of_answer(&owner).await;
    let trace = TraceContext::parse(headers["traceparent"].as_str().expect("it has a trace")).expect("a valid one");
    // The trace id is derived from the correlation id, so that every message of the story is in the same trace.
    assert_eq!(trace.trace_id(), TraceContext::of_story(IdText::Text(&story), Uuid::nil()).trace_id());
}

/// Stores exported spans.
#[derive(Clone, Debug, Default)]
struct ExportedSpans(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for ExportedSpans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().extend(batch);
        Ok(())
    }
}

/// Exports the spans of this thread until the guard is dropped.
fn exporting() -> (ExportedSpans, impl Drop) {
    // While there is only one dispatcher, `tracing` asks the thread that first reaches a callsite, and another test's
    // thread is not interested. With a second dispatcher it asks all of them.
    static SECOND: OnceLock<tracing::Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| tracing::Dispatch::new(tracing_subscriber::registry()));
    let kept = ExportedSpans::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    (kept, tracing::subscriber::set_default(tracing_subscriber::registry().with(layer)))
}

struct NoopBatch;

impl BatchHandler for NoopBatch {
    type Event = Job;

    async fn handle_all(&self, _: &mut Tx, batch: &[InBatch<'_, Job>]) -> Result<(), Failure> {
        for message in batch {
            message.span().in_scope(|| tracing::info_span!("step").in_scope(|| {}));
        }
        Ok(())
    }
}

#[test]
fn a_call_to_another_system_has_a_span_whose_context_can_be_passed_on() {
    let (kept, _guard) = exporting();
    let span = client_span("example-bank", "charge");
    let handed_on = context_of(&span).expect("an exporter is installed");
    drop(span);
    let spans = kept.0.lock().clone();
    let [call] = &spans[..] else { panic!("one span") };
    assert_eq!((call.name.as_ref(), &call.span_kind), ("example-bank charge", &SpanKind::Client));
    assert_eq!(call.span_context.span_id().to_string(), handed_on.span_id());
}

#[tokio::test]
async fn each_message_of_a_batch_has_a_span_of_its_own_in_its_own_trace() {
    // For this thread, on which the whole test runs.
    let (kept, _guard) = exporting();
    let batching = Consumer::transactional("probe", QUEUE).on_batch(NoopBatch).concurrency(1);
    let mut platform = platform(one_lane(), batching).await;
    let owner = platform.database().owner().await;
    let traces: Vec<TraceContext> = (0..3).map(|_| TraceContext::new_root()).collect();
    for trace in &traces {
        let mut tx =
            platform.db().begin(Scope { trace: Some(trace.clone()), ..scope("acme") }).await.expect("a connection");
        outbox::send(&mut tx, job("acme", "one of three")).await.expect("it is accepted");
        tx.commit().await.expect("it commits");
    }
    platform.run_consumers();
    drained(&owner).await;
    assert!(platform.stop().await.0);
    let spans = kept.0.lock().clone();
    for trace in &traces {
        let own: Vec<&SpanData> =
            spans.iter().filter(|span| span.span_context.trace_id().to_string() == trace.trace_id()).collect();
        let handled = own.iter().find(|span| span.name == "handle").expect("a span of its own");
        assert_eq!(handled.parent_span_id.to_string(), trace.span_id());
        let step = own.iter().find(|span| span.name == "step").expect("the actions");
        assert_eq!(step.parent_span_id, handled.span_context.span_id());
    }
    let batch = spans.iter().find(|span| span.name == "handle batch").expect("a span for all of them");
    assert_eq!(batch.links.len(), 3);
}
