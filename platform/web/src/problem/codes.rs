//! The problem codes of the platform itself. Each has a page that is served at `/problems/<code>`.

/// A kind of problem. Services add their own with [`ProblemCode::new`] and [`crate::Routes::problems`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemCode {
    /// Lower-case words with hyphens; the last part of the problem's `type`.
    pub code: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong, in one short sentence that never changes.
    pub title: &'static str,
    /// The page behind the `type`, in Markdown: its meaning, and what to do.
    pub page: &'static str,
}

impl ProblemCode {
    /// Creates a problem code of a service. `page` opens with the line `# <title> (<status>)`; [`crate::routes::check`]
    /// reports one that does not.
    pub const fn new(code: &'static str, status: u16, title: &'static str, page: &'static str) -> Self {
        Self { code, status, title, page }
    }
}

/// A path parameter, a query parameter or a header has a form this route does not accept.
pub const INVALID_REQUEST: ProblemCode = ProblemCode {
    code: "invalid-request",
    status: 400,
    title: "The request is invalid",
    page: include_str!("../../problems/invalid-request.md"),
};

/// The body could not be parsed.
pub const INVALID_JSON: ProblemCode = ProblemCode {
    code: "invalid-json",
    status: 400,
    title: "The body is not valid JSON",
    page: include_str!("../../problems/invalid-json.md"),
};

/// A command was sent without its key.
pub const KEY_MISSING: ProblemCode = ProblemCode {
    code: "idempotency-key-missing",
    status: 400,
    title: "An Idempotency-Key is required",
    page: include_str!("../../problems/idempotency-key-missing.md"),
};

/// The key is malformed.
pub const KEY_INVALID: ProblemCode = ProblemCode {
    code: "idempotency-key-invalid",
    status: 400,
    title: "The Idempotency-Key is invalid",
    page: include_str!("../../problems/idempotency-key-invalid.md"),
};

/// The token is missing or was refused.
pub const UNAUTHORIZED: ProblemCode = ProblemCode {
    code: "unauthorized",
    status: 401,
    title: "A valid token is required",
    page: include_str!("../../problems/unauthorized.md"),
};

/// The token is valid but does not carry the role.
pub const FORBIDDEN: ProblemCode = ProblemCode {
    code: "forbidden",
    status: 403,
    title: "A required role is missing",
    page: include_str!("../../problems/forbidden.md"),
};

/// The resource does not exist for this tenant.
pub const NOT_FOUND: ProblemCode = ProblemCode {
    code: "not-found",
    status: 404,
    title: "Not found",
    page: include_str!("../../problems/not-found.md"),
};

/// The path exists with other methods.
pub const METHOD_NOT_ALLOWED: ProblemCode = ProblemCode {
    code: "method-not-allowed",
    status: 405,
    title: "The method is not allowed",
    page: include_str!("../../problems/method-not-allowed.md"),
};

/// Another request holds the key.
pub const KEY_IN_PROGRESS: ProblemCode = ProblemCode {
    code: "idempotency-key-in-progress",
    status: 409,
    title: "The same command is still running",
    page: include_str!("../../problems/idempotency-key-in-progress.md"),
};

/// The body is over the limit.
pub const BODY_TOO_LARGE: ProblemCode = ProblemCode {
    code: "body-too-large",
    status: 413,
    title: "The body is too large",
    page: include_str!("../../problems/body-too-large.md"),
};

/// The content type is not JSON.
pub const UNSUPPORTED_MEDIA_TYPE: ProblemCode = ProblemCode {
    code: "unsupported-media-type",
    status: 415,
    title: "Unsupported media type",
    page: include_str!("../../problems/unsupported-media-type.md"),
};

/// The body violates its schema.
pub const VALIDATION_FAILED: ProblemCode = ProblemCode {
    code: "validation-failed",
    status: 422,
    title: "The input is invalid",
    page: include_str!("../../problems/validation-failed.md"),
};

/// The same key was used for a different request.
pub const KEY_REUSED: ProblemCode = ProblemCode {
    code: "idempotency-key-reused",
    status: 422,
    title: "The Idempotency-Key was used for another body",
    page: include_str!("../../problems/idempotency-key-reused.md"),
};

/// The server failed.
pub const INTERNAL: ProblemCode = ProblemCode {
    code: "internal",
    status: 500,
    title: "Internal server error",
    page: include_str!("../../problems/internal.md"),
};

/// The database cannot be reached.
pub const DATABASE_UNAVAILABLE: ProblemCode = ProblemCode {
    code: "database-unavailable",
    status: 503,
    title: "The database is unavailable",
    page: include_str!("../../problems/database-unavailable.md"),
};

/// The connection broke during commit.
pub const OUTCOME_UNKNOWN: ProblemCode = ProblemCode {
    code: "outcome-unknown",
    status: 503,
    title: "The outcome is unknown",
    page: include_str!("../../problems/outcome-unknown.md"),
};

/// A deadlock, a serialisation failure or a lock timeout.
pub const WRITE_CONFLICT: ProblemCode = ProblemCode {
    code: "write-conflict",
    status: 503,
    title: "A concurrent request changed the same data",
    page: include_str!("../../problems/write-conflict.md"),
};

/// A limit on concurrent work was reached.
pub const OVERLOADED: ProblemCode = ProblemCode {
    code: "overloaded",
    status: 503,
    title: "The server is overloaded",
    page: include_str!("../../problems/overloaded.md"),
};

/// The request exceeded its time limit.
pub const TIMEOUT: ProblemCode = ProblemCode {
    code: "timeout",
    status: 503,
    title: "The request timed out",
    page: include_str!("../../problems/timeout.md"),
};

/// The identity provider's keys could not be loaded.
pub const KEYS_UNAVAILABLE: ProblemCode = ProblemCode {
    code: "keys-unavailable",
    status: 503,
    title: "Tokens cannot be verified at the moment",
    page: include_str!("../../problems/keys-unavailable.md"),
};

/// All codes above.
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
