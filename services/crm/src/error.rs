//! The errors of this service, and the problem codes that callers see.

use onceward::{
    DbError, Failure, Problem, ProblemCode, PublishError,
    secrets::SealError,
    web::problem::{FieldError, codes},
};
use onceward_audit::AuditError;

/// The contact may not be written to.
pub const RECIPIENT_DENIED: ProblemCode = ProblemCode::new(
    "recipient-denied",
    409,
    "A recipient may not be written to",
    include_str!("../problems/recipient-denied.md"),
);
/// The template or its variables have mistakes.
pub const TEMPLATE_INVALID: ProblemCode = ProblemCode::new(
    "template-invalid",
    422,
    "The template or its variables have mistakes",
    include_str!("../problems/template-invalid.md"),
);
/// The mail cannot be sent as it was requested.
pub const EMAIL_INVALID: ProblemCode = ProblemCode::new(
    "email-invalid",
    422,
    "The mail cannot be sent as it was requested",
    include_str!("../problems/email-invalid.md"),
);
/// The contact was changed by somebody else.
pub const CONTACT_CHANGED: ProblemCode = ProblemCode::new(
    "contact-changed",
    409,
    "The contact was changed since it was read",
    include_str!("../problems/contact-changed.md"),
);
/// The contact was erased.
pub const CONTACT_ERASED: ProblemCode =
    ProblemCode::new("contact-erased", 409, "The contact was erased", include_str!("../problems/contact-erased.md"));
/// Something with the same name or content exists.
pub const ALREADY_EXISTS: ProblemCode =
    ProblemCode::new("already-exists", 409, "It exists already", include_str!("../problems/already-exists.md"));

/// All problem codes of this service.
pub(crate) const PROBLEMS: &[ProblemCode] =
    &[RECIPIENT_DENIED, TEMPLATE_INVALID, EMAIL_INVALID, CONTACT_CHANGED, CONTACT_ERASED, ALREADY_EXISTS];

/// An error inside this service. Its text names no person.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CrmError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error("{0}: set crm.secret_key or auth.secret, and crm.secret_keys_before after a change")]
    Seal(#[from] SealError),
    #[error("a stored key has the wrong length")]
    DamagedKey,
    #[error("the object store failed: {0}")]
    Objects(#[from] object_store::Error),
    #[error("The {0} does not exist.")]
    NotFound(&'static str),
    #[error("{message}")]
    Invalid { path: String, message: String },
    #[error("The contact has version {current}: read it again, and repeat the change on that version.")]
    ContactChanged { current: i32 },
    #[error("The contact was erased: create a new one.")]
    ContactErased,
    #[error("{0}")]
    AlreadyExists(String),
    #[error("The template or its variables have {} mistakes: `errors` lists them.", .0.len())]
    TemplateInvalid(Vec<FieldError>),
    #[error("{0}")]
    Other(String),
}

impl CrmError {
    /// Creates the error of one member of the input: `path` is a JSON pointer, `message` says what to do.
    pub(crate) fn invalid(path: impl Into<String>, message: impl ToString) -> Self {
        Self::Invalid { path: path.into(), message: message.to_string() }
    }
}

impl From<CrmError> for Problem {
    fn from(error: CrmError) -> Self {
        let text = error.to_string();
        match error {
            CrmError::Db(error) => error.into(),
            CrmError::Publish(error) => error.into(),
            CrmError::NotFound(_) => Problem::new(codes::NOT_FOUND).detail(text),
            CrmError::Invalid { path, message } => {
                Problem::new(codes::VALIDATION_FAILED).detail(text).error(path, message)
            }
            CrmError::ContactChanged { .. } => Problem::new(CONTACT_CHANGED).detail(text),
            CrmError::ContactErased => Problem::new(CONTACT_ERASED).detail(text),
            CrmError::AlreadyExists(_) => Problem::new(ALREADY_EXISTS).detail(text),
            CrmError::TemplateInvalid(errors) => Problem::new(TEMPLATE_INVALID).detail(text).errors(errors),
            other => Problem::internal(other),
        }
    }
}

impl From<CrmError> for Failure {
    fn from(error: CrmError) -> Self {
        match error {
            CrmError::Db(error) => error.into(),
            CrmError::Publish(error) => error.into(),
            // The same input fails again.
            CrmError::NotFound(_)
            | CrmError::Invalid { .. }
            | CrmError::ContactChanged { .. }
            | CrmError::ContactErased
            | CrmError::AlreadyExists(_)
            | CrmError::TemplateInvalid(_) => Failure::permanent(error),
            other => Failure::transient(other),
        }
    }
}
