//! Errors of webhook commands.

use crate::{
    problems::{ENDPOINT_LIMIT, ENDPOINT_REFUSES},
    vault::VaultError,
};
use onceward::{DbError, Problem, PublishError, web::problem::codes};
use onceward_audit::AuditError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    #[error("The {0} does not exist.")]
    NotFound(&'static str),
    #[error("{0}")]
    EndpointRefuses(&'static str),
    #[error("The tenant has reached its limit of {0} endpoints. Delete one first.")]
    EndpointLimit(i64),
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
            WebhookError::NotFound(_) => Problem::new(codes::NOT_FOUND).detail(text),
            WebhookError::EndpointRefuses(_) => Problem::new(ENDPOINT_REFUSES).detail(text),
            WebhookError::EndpointLimit(_) => Problem::new(ENDPOINT_LIMIT).detail(text),
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
