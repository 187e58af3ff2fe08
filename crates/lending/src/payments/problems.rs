//! The kinds of problem that payments have.

use super::provider::Wrong;
use onceward::{
    Problem, ProblemCode,
    web::{FieldError, problem::codes},
};

/// There is no such gateway.
pub const PROVIDER_UNKNOWN: ProblemCode = ProblemCode {
    code: "provider-unknown",
    status: 404,
    title: "There is no such payment provider",
    page: include_str!("../../../../docs/problems/provider-unknown.md"),
};

/// A gateway's transaction came again and said something else.
pub const PAYMENT_CONFLICT: ProblemCode = ProblemCode {
    code: "payment-conflict",
    status: 409,
    title: "The transaction is known and was something else",
    page: include_str!("../../../../docs/problems/payment-conflict.md"),
};

/// A webhook that proves nothing.
pub const SIGNATURE_INVALID: ProblemCode = ProblemCode {
    code: "signature-invalid",
    status: 401,
    title: "The signature does not fit",
    page: include_str!("../../../../docs/problems/signature-invalid.md"),
};

/// The payment's state says no.
pub const PAYMENT_REFUSES: ProblemCode = ProblemCode {
    code: "payment-refuses",
    status: 409,
    title: "The payment's state does not allow this",
    page: include_str!("../../../../docs/problems/payment-refuses.md"),
};

/// Every kind above.
pub(crate) const PROBLEMS: &[ProblemCode] = &[PROVIDER_UNKNOWN, PAYMENT_CONFLICT, SIGNATURE_INVALID, PAYMENT_REFUSES];

/// A payload that cannot be read, with all that is wrong with it.
pub(crate) fn unreadable(wrong: Vec<Wrong>) -> Problem {
    Problem::new(codes::VALIDATION_FAILED)
        .detail("The payment cannot be read; `errors` says where.")
        .errors(wrong.into_iter().map(|wrong| FieldError { path: wrong.path, message: wrong.message }))
}

pub(crate) fn no_such_payment() -> Problem {
    Problem::new(codes::NOT_FOUND).detail("There is no such payment.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_opens_with_its_title_and_status() {
        for code in PROBLEMS {
            let heading = format!("# {} ({})", code.title, code.status);
            assert_eq!(code.page.lines().next(), Some(heading.as_str()));
        }
    }
}
