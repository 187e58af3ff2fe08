//! The problem codes of this service.

use onceward::ProblemCode;

/// The endpoint's state does not allow the request.
pub const ENDPOINT_REFUSES: ProblemCode = ProblemCode::new(
    "webhook-endpoint-refuses",
    409,
    "The endpoint's state does not allow this",
    include_str!("../problems/webhook-endpoint-refuses.md"),
);

/// The tenant has reached its limit of endpoints.
pub const ENDPOINT_LIMIT: ProblemCode = ProblemCode::new(
    "webhook-endpoint-limit",
    409,
    "Endpoint limit reached",
    include_str!("../problems/webhook-endpoint-limit.md"),
);

/// All problem codes of this service.
pub(crate) const PROBLEMS: &[ProblemCode] = &[ENDPOINT_REFUSES, ENDPOINT_LIMIT];
