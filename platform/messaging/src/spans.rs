//! The bridge between a message's trace context and the spans that OpenTelemetry exports.
//!
//! Without an exporter no spans are exported, and these functions do nothing.

use onceward_envelope::TraceContext;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The maximum number of links on a span that covers many messages.
const LINKS_AT_MOST: usize = 32;

/// Sets the parent of `span` to the span that `parent` identifies, possibly in another process.
pub fn continue_from(span: &Span, parent: &TraceContext) {
    if let Some(remote) = span_context(parent) {
        // Fails only if no exporter is installed, and then parents are not used.
        let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(remote));
    }
}

/// Links `span`, which covers many messages, to the traces of the first few of them.
pub fn link_to(span: &Span, traces: impl IntoIterator<Item = TraceContext>) {
    if !context_of(span).is_some_and(|context| context.is_sampled()) {
        return;
    }
    for linked in traces.into_iter().take(LINKS_AT_MOST).filter_map(|trace| span_context(&trace)) {
        span.add_link(linked);
    }
}

/// Returns a span for a call to another system, such as a payment provider: `peer` is its name, `operation` the
/// request. Run the call within it (`.instrument(span)`), and pass its [`context_of`] on in the request's
/// `traceparent`.
pub fn client_span(peer: &str, operation: &str) -> Span {
    tracing::info_span!("call", otel.kind = "client", otel.name = %format_args!("{peer} {operation}"), peer.service = peer, operation)
}

/// Returns the context that identifies `span` itself, to be passed on. `None` without an exporter.
pub fn context_of(span: &Span) -> Option<TraceContext> {
    let context = span.context();
    let here = context.span().span_context().clone();
    if !here.is_valid() {
        return None;
    }
    let flags = here.trace_flags().to_u8();
    let trace = TraceContext::parse(&format!("00-{}-{}-{flags:02x}", here.trace_id(), here.span_id()))?;
    Some(trace.with_state(Some(&here.trace_state().header())))
}

fn span_context(trace: &TraceContext) -> Option<SpanContext> {
    let (id, span) = (TraceId::from_hex(trace.trace_id()).ok()?, SpanId::from_hex(trace.span_id()).ok()?);
    let flags = if trace.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    // A state that the library cannot parse is not passed on through it; the message keeps it.
    let state = trace.tracestate().and_then(|state| state.parse().ok()).unwrap_or_default();
    Some(SpanContext::new(id, span, flags, true, state))
}
