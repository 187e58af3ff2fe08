//! Names of the headers that travel beside the body on every bus.

/// The event id; brokers that deduplicate look here.
pub const MESSAGE_ID: &str = "x-message-id";
/// The correlation id, so that a message can be traced without reading its body.
pub const CORRELATION_ID: &str = "x-correlation-id";
/// The schema the payload obeys, such as `payment.posted.v1`.
pub const SCHEMA: &str = "x-schema";
/// The trace id alone, for tools that do not read `traceparent`.
pub const TRACE_ID: &str = "x-trace-id";
/// W3C trace context.
pub const TRACEPARENT: &str = "traceparent";
/// As many of them as there can be.
pub(crate) const MOST: usize = 5;
