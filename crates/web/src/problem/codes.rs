//! The kinds of problem that the platform itself has. Each has a page that is served at `/problems/<code>`.

/// A kind of problem. Services add their own with [`ProblemCode::new`] and [`crate::Routes::problems`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemCode {
    /// Lower-case words with hyphens; the last part of the problem's `type`.
    pub code: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong, in one short sentence that never changes.
    pub title: &'static str,
    /// The page behind the `type`, in Markdown: what it means, what to do.
    pub page: &'static str,
}

impl ProblemCode {
    /// A kind of a service's own.
    pub const fn new(code: &'static str, status: u16, title: &'static str, page: &'static str) -> Self {
        Self { code, status, title, page }
    }
}

/// A path parameter, a query parameter or a header has a form this route does not accept.
pub const INVALID_REQUEST: ProblemCode = ProblemCode {
    code: "invalid-request",
    status: 400,
    title: "The request could not be read",
    page: include_str!("../../../../docs/problems/invalid-request.md"),
};

/// The body could not be parsed.
pub const INVALID_JSON: ProblemCode = ProblemCode {
    code: "invalid-json",
    status: 400,
    title: "The body is not JSON",
    page: include_str!("../../../../docs/problems/invalid-json.md"),
};

/// A command came without its key.
pub const KEY_MISSING: ProblemCode = ProblemCode {
    code: "idempotency-key-missing",
    status: 400,
    title: "An Idempotency-Key is required",
    page: include_str!("../../../../docs/problems/idempotency-key-missing.md"),
};

/// The key breaks its form.
pub const KEY_INVALID: ProblemCode = ProblemCode {
    code: "idempotency-key-invalid",
    status: 400,
    title: "The Idempotency-Key is not valid",
    page: include_str!("../../../../docs/problems/idempotency-key-invalid.md"),
};

/// The token is missing or was refused.
pub const UNAUTHORIZED: ProblemCode = ProblemCode {
    code: "unauthorized",
    status: 401,
    title: "A valid token is required",
    page: include_str!("../../../../docs/problems/unauthorized.md"),
};

/// The token is valid but does not carry the role.
pub const FORBIDDEN: ProblemCode = ProblemCode {
    code: "forbidden",
    status: 403,
    title: "The caller lacks a role",
    page: include_str!("../../../../docs/problems/forbidden.md"),
};

/// No such resource for this tenant.
pub const NOT_FOUND: ProblemCode = ProblemCode {
    code: "not-found",
    status: 404,
    title: "Not found",
    page: include_str!("../../../../docs/problems/not-found.md"),
};

/// The path exists with other methods.
pub const METHOD_NOT_ALLOWED: ProblemCode = ProblemCode {
    code: "method-not-allowed",
    status: 405,
    title: "The method is not allowed here",
    page: include_str!("../../../../docs/problems/method-not-allowed.md"),
};

/// Another request holds the key.
pub const KEY_IN_PROGRESS: ProblemCode = ProblemCode {
    code: "idempotency-key-in-progress",
    status: 409,
    title: "The same command is still running",
    page: include_str!("../../../../docs/problems/idempotency-key-in-progress.md"),
};

/// The body is over the limit.
pub const BODY_TOO_LARGE: ProblemCode = ProblemCode {
    code: "body-too-large",
    status: 413,
    title: "The body is too large",
    page: include_str!("../../../../docs/problems/body-too-large.md"),
};

/// The content type is not JSON.
pub const UNSUPPORTED_MEDIA_TYPE: ProblemCode = ProblemCode {
    code: "unsupported-media-type",
    status: 415,
    title: "The body must be JSON",
    page: include_str!("../../../../docs/problems/unsupported-media-type.md"),
};

/// The body breaks its schema.
pub const VALIDATION_FAILED: ProblemCode = ProblemCode {
    code: "validation-failed",
    status: 422,
    title: "The input is not valid",
    page: include_str!("../../../../docs/problems/validation-failed.md"),
};

/// Same key, different request.
pub const KEY_REUSED: ProblemCode = ProblemCode {
    code: "idempotency-key-reused",
    status: 422,
    title: "The Idempotency-Key was used for another body",
    page: include_str!("../../../../docs/problems/idempotency-key-reused.md"),
};

/// An error of the server's own.
pub const INTERNAL: ProblemCode = ProblemCode {
    code: "internal",
    status: 500,
    title: "Something failed on our side",
    page: include_str!("../../../../docs/problems/internal.md"),
};

/// The database cannot be reached.
pub const DATABASE_UNAVAILABLE: ProblemCode = ProblemCode {
    code: "database-unavailable",
    status: 503,
    title: "The database is not available",
    page: include_str!("../../../../docs/problems/database-unavailable.md"),
};

/// The connection broke during commit.
pub const OUTCOME_UNKNOWN: ProblemCode = ProblemCode {
    code: "outcome-unknown",
    status: 503,
    title: "Whether it was done is not known",
    page: include_str!("../../../../docs/problems/outcome-unknown.md"),
};

/// Deadlock, serialisation failure or lock timeout.
pub const WRITE_CONFLICT: ProblemCode = ProblemCode {
    code: "write-conflict",
    status: 503,
    title: "Another request was in the way",
    page: include_str!("../../../../docs/problems/write-conflict.md"),
};

/// A limit on concurrent work was reached.
pub const OVERLOADED: ProblemCode = ProblemCode {
    code: "overloaded",
    status: 503,
    title: "The server has too much to do",
    page: include_str!("../../../../docs/problems/overloaded.md"),
};

/// The request's time was used up.
pub const TIMEOUT: ProblemCode = ProblemCode {
    code: "timeout",
    status: 503,
    title: "The request took too long",
    page: include_str!("../../../../docs/problems/timeout.md"),
};

/// The identity provider's keys could not be loaded.
pub const KEYS_UNAVAILABLE: ProblemCode = ProblemCode {
    code: "keys-unavailable",
    status: 503,
    title: "Tokens cannot be checked at the moment",
    page: include_str!("../../../../docs/problems/keys-unavailable.md"),
};

/// Every kind above.
pub const ALL: &[ProblemCode] = &[
    INVALID_REQUEST,
    INVALID_JSON,
    KEY_MISSING,
    KEY_INVALID,
    UNAUTHORIZED,
    FORBIDDEN,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    KEY_IN_PROGRESS,
    BODY_TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    VALIDATION_FAILED,
    KEY_REUSED,
    INTERNAL,
    DATABASE_UNAVAILABLE,
    OUTCOME_UNKNOWN,
    WRITE_CONFLICT,
    OVERLOADED,
    TIMEOUT,
    KEYS_UNAVAILABLE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_is_unique_and_its_page_opens_with_its_title_and_status() {
        let codes: BTreeSet<_> = ALL.iter().map(|code| code.code).collect();
        assert_eq!(codes.len(), ALL.len());
        for code in ALL {
            let heading = format!("# {} ({})", code.title, code.status);
            assert_eq!(code.page.lines().next(), Some(heading.as_str()));
        }
    }
}
