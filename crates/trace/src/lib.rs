//! The bridge between a message's trace context and the spans that OpenTelemetry exports.
//!
//! Without an exporter there are no exported spans, and both functions say so by doing nothing.

use onceward_envelope::TraceContext;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Makes `span` a child of the span that `parent` names, in another process perhaps.
pub fn continue_from(span: &Span, parent: &TraceContext) {
    let (Ok(trace), Ok(parent_span)) = (TraceId::from_hex(parent.trace_id()), SpanId::from_hex(parent.span_id()))
    else {
        return;
    };
    let flags = if parent.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let remote = SpanContext::new(trace, parent_span, flags, true, TraceState::default());
    // Fails only where no exporter is installed, and then nobody looks at parents.
    let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(remote));
}

/// The context that names `span` itself, to be handed on. `None` without an exporter.
pub fn context_of(span: &Span) -> Option<TraceContext> {
    let context = span.context();
    let here = context.span().span_context().clone();
    if !here.is_valid() {
        return None;
    }
    let flags = here.trace_flags().to_u8();
    TraceContext::parse(&format!("00-{}-{}-{flags:02x}", here.trace_id(), here.span_id()))
}
