//! The limits of the HTTP edge. Every one has a default that is safe to run with.

/// Limits and timeouts. `WebConfig::default()` returns the documented values.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// The largest request body in bytes; a larger one gets a 413. 1 MiB.
    pub max_body_bytes: usize,
    /// The time limit of a whole request, including reading its body, before it gets a 503. 30 s.
    pub request_timeout_ms: u64,
    /// Maximum number of concurrent requests; a further one gets a 503 immediately instead of waiting. 512.
    pub max_concurrent_requests: usize,
    /// Maximum number of open connections; further ones wait in the listener's backlog. 4096.
    pub max_connections: usize,
    /// How long a client may take to send a request's headers before it is disconnected. The HTTP library counts from
    /// the end of the previous request, so this is also the idle timeout of a connection; it is longer than the 60 s of
    /// common load balancers, which must be the ones to disconnect. 75 s.
    pub header_read_timeout_ms: u64,
    /// The largest request head in bytes, all headers together; at least 8 KiB. 64 KiB.
    pub max_header_bytes: usize,
    /// How long requests in flight may take to finish after a shutdown starts. 10 s.
    pub shutdown_grace_ms: u64,
    /// How long a stored response is returned for repetitions of its idempotency key. 24 h.
    pub idempotency_ttl_s: u64,
    /// The largest response that is stored for an idempotency key. 1 MiB.
    pub max_stored_response_bytes: usize,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            max_body_bytes: 1024 * 1024,
            request_timeout_ms: 30_000,
            max_concurrent_requests: 512,
            max_connections: 4096,
            header_read_timeout_ms: 75_000,
            max_header_bytes: 64 * 1024,
            shutdown_grace_ms: 10_000,
            idempotency_ttl_s: 24 * 60 * 60,
            max_stored_response_bytes: 1024 * 1024,
        }
    }
}
