//! The problems of this service's own.

use onceward::ProblemCode;

/// The endpoint's state says no.
pub const ENDPOINT_REFUSES: ProblemCode = ProblemCode::new(
    "webhook-endpoint-refuses",
    409,
    "The endpoint's state does not allow this",
    include_str!("../../../docs/problems/webhook-endpoint-refuses.md"),
);

/// A tenant has as many endpoints as it may have.
pub const ENDPOINT_LIMIT: ProblemCode = ProblemCode::new(
    "webhook-endpoint-limit",
    409,
    "There are as many endpoints as there may be",
    include_str!("../../../docs/problems/webhook-endpoint-limit.md"),
);

/// Every kind above.
pub(crate) const PROBLEMS: &[ProblemCode] = &[ENDPOINT_REFUSES, ENDPOINT_LIMIT];

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
