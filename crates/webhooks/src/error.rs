//! Why something about a webhook is not done.

use crate::{
    problems::{ENDPOINT_LIMIT, ENDPOINT_REFUSES},
    vault::VaultError,
};
use onceward::{DbError, Problem, PublishError, web::problem::codes};
use onceward_audit::AuditError;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    #[error("there is no such {0}")]
    Missing(&'static str),
    #[error("{0}")]
    Refuses(&'static str),
    #[error("the tenant has {0} endpoints, which is as many as it may have")]
    Limit(i64),
    #[error("{message}")]
    Invalid { path: &'static str, message: String },
    #[error(transparent)]
    Db(#[from] DbError),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Vault(#[from] VaultError),
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        let text = error.to_string();
        match error {
            WebhookError::Missing(_) => Problem::new(codes::NOT_FOUND).detail(text),
            WebhookError::Refuses(_) => Problem::new(ENDPOINT_REFUSES).detail(text),
            WebhookError::Limit(_) => Problem::new(ENDPOINT_LIMIT).detail(text),
            WebhookError::Invalid { path, message } => {
                Problem::new(codes::VALIDATION_FAILED).detail(&text).error(path, message)
            }
            WebhookError::Db(error) => error.into(),
            WebhookError::Publish(error) => error.into(),
            WebhookError::Audit(error) => Problem::internal(error),
            WebhookError::Vault(error) => Problem::internal(error),
        }
    }
}
