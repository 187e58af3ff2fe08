//! The problem codes of payments.

use super::provider::InvalidField;
use onceward::{
    Problem, ProblemCode,
    web::{FieldError, problem::codes},
};

/// The gateway does not exist.
pub const PROVIDER_UNKNOWN: ProblemCode = ProblemCode {
    code: "provider-unknown",
    status: 404,
    title: "Unknown payment provider",
    page: include_str!("../../problems/provider-unknown.md"),
};

/// A gateway's transaction was sent again with different data.
pub const PAYMENT_CONFLICT: ProblemCode = ProblemCode {
    code: "payment-conflict",
    status: 409,
    title: "The transaction was already received with different data",
    page: include_str!("../../problems/payment-conflict.md"),
};

/// A webhook's signature could not be verified.
pub const SIGNATURE_INVALID: ProblemCode = ProblemCode {
    code: "signature-invalid",
    status: 401,
    title: "The signature is invalid",
    page: include_str!("../../problems/signature-invalid.md"),
};

/// The payment's state does not allow the request.
pub const PAYMENT_REFUSES: ProblemCode = ProblemCode {
    code: "payment-refuses",
    status: 409,
    title: "The payment's state does not allow this",
    page: include_str!("../../problems/payment-refuses.md"),
};

/// All problem codes above.
pub(crate) const PROBLEMS: &[ProblemCode] = &[PROVIDER_UNKNOWN, PAYMENT_CONFLICT, SIGNATURE_INVALID, PAYMENT_REFUSES];

/// Creates the problem for an invalid payload, with all its errors.
pub(crate) fn invalid_payload(errors: Vec<InvalidField>) -> Problem {
    Problem::new(codes::VALIDATION_FAILED)
        .detail("The payment is invalid; see `errors`.")
        .errors(errors.into_iter().map(|error| FieldError { path: error.path, message: error.message }))
}

pub(crate) fn no_such_payment() -> Problem {
    Problem::new(codes::NOT_FOUND).detail("There is no such payment.")
}
