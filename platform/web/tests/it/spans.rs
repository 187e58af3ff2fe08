//! Calls to other systems have their own spans.

use crate::support::{TestApp, TestConfig};
use axum::{
    body::Body,
    http::{HeaderMap, Request},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use onceward_web::{AuthConfig, JwksSource};
use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::net::TcpListener;
use tracing_subscriber::layer::SubscriberExt;

/// Captures the exported spans.
#[derive(Clone, Debug, Default)]
struct CapturedSpans(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for CapturedSpans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().extend(batch);
        Ok(())
    }
}

/// Serves a key set and records the `traceparent` of each request; returns its URL and the recorded values.
async fn start_provider() -> (String, Arc<Mutex<Vec<String>>>) {
    let traceparents: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorded = traceparents.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let keys = move |headers: HeaderMap| async move {
        let trace = headers.get("traceparent").and_then(|value| value.to_str().ok()).unwrap_or_default();
        recorded.lock().push(trace.to_owned());
        include_str!("fixtures/jwks.json")
    };
    let router = axum::Router::new().route("/jwks", axum::routing::get(keys));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, traceparents)
}

#[tokio::test]
async fn reading_the_keys_of_the_identity_provider_is_a_client_span_of_the_request() {
    let exported = CapturedSpans::default();
    let tracer = SdkTracerProvider::builder().with_simple_exporter(exported.clone()).build().tracer("test");
    // A second subscriber makes tracing query every subscriber, so that a test without one does not disable spans.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    // Applies to this thread, on which this whole test runs.
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let (url, traceparents) = start_provider().await;
    let app = TestApp::with(TestConfig { auth: AuthConfig::jwks(JwksSource::Url(url)), ..TestConfig::default() });
    let mut header = Header::new(Algorithm::RS256);
    header.kid = Some("test-1".to_owned());
    let key = EncodingKey::from_rsa_pem(include_bytes!("fixtures/rsa_test_only.pem")).unwrap();
    let request = Request::get("/api/notes")
        .header("authorization", format!("Bearer {}", encode(&header, &app.claims(), &key).unwrap()))
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_eq!(app.send(request.body(Body::empty()).unwrap()).await.status, 200);

    let spans = exported.0.lock().clone();
    let call = spans.iter().find(|span| span.name == "identity-provider read keys").expect("a span of the call");
    assert_eq!(call.span_kind, SpanKind::Client);
    let (trace, span) = (call.span_context.trace_id().to_string(), call.span_context.span_id().to_string());
    assert_eq!(trace, "4bf92f3577b34da6a3ce929d0e0e4736", "the call belongs to the trace of the request");
    assert_eq!(
        *traceparents.lock(),
        [format!("00-{trace}-{span}-01")],
        "the provider receives this span as its parent"
    );
}
