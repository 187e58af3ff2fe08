//! Converts database errors to problems. The server's message is logged; the client learns only whether to retry.

use super::{Problem, codes};
use onceward_db::DbError;
use onceward_envelope::SchemaError;
use onceward_messaging::PublishError;

impl From<DbError> for Problem {
    fn from(error: DbError) -> Self {
        let problem = match &error {
            DbError::Busy { .. } => Problem::new(codes::OVERLOADED)
                .detail("Every database connection is in use.")
                .retry_after_s(random_retry_after_s()),
            DbError::OutcomeUnknown => Problem::new(codes::OUTCOME_UNKNOWN)
                .detail("The connection broke during the commit. Repeat the request with the same Idempotency-Key: it takes effect once.")
                .retry_after_s(random_retry_after_s()),
            DbError::Impaired { .. } => Problem::new(codes::DATABASE_UNAVAILABLE)
                .detail("The database does not accept writes at the moment. Nothing was written.")
                .retry_after_s(random_retry_after_s()),
            error if error.is_unavailable() => Problem::new(codes::DATABASE_UNAVAILABLE)
                .detail("The database cannot be reached. Nothing was written.")
                .retry_after_s(random_retry_after_s()),
            error if is_canceled(error) => Problem::new(codes::TIMEOUT)
                .detail("The database cancelled a statement that ran too long. Nothing was written.")
                .retry_after_s(random_retry_after_s()),
            error if error.is_transient() => Problem::new(codes::WRITE_CONFLICT)
                .detail("Another request changed the same rows at the same time. Nothing was written.")
                .retry_after_s(1),
            _ => return Problem::internal(error),
        };
        problem.caused_by(error)
    }
}

/// An event that violates its schema means that the request schema let invalid input through.
impl From<PublishError> for Problem {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Contract(SchemaError::Violations { schema_id, violations }) => {
                Problem::new(codes::VALIDATION_FAILED)
                    .detail(format!(
                        "The request would publish an event that violates {schema_id}; `errors` lists the violations."
                    ))
                    .errors(violations)
            }
            error if error.is_transient() => Problem::new(codes::DATABASE_UNAVAILABLE)
                .detail("The message could not be stored. Nothing was written.")
                .retry_after_s(random_retry_after_s())
                .caused_by(error),
            error => Problem::internal(error),
        }
    }
}

fn is_canceled(error: &DbError) -> bool {
    error.sql_state().is_some_and(|state| state.code() == "57014")
}

/// Returns 1 to 5 seconds at random, so that rejected clients do not all come back at the same moment.
pub(super) fn random_retry_after_s() -> u32 {
    u32::from(uuid::Uuid::new_v4().as_bytes()[0] % 5) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{http::header, response::IntoResponse};

    #[test]
    fn an_unavailable_database_is_a_503_with_retry_after() {
        let problem = Problem::from(DbError::Unavailable("connection refused".into()));
        assert_eq!(problem.code().code, "database-unavailable");
        let response = problem.into_response();
        assert_eq!(response.status(), 503);
        let seconds: u32 = response.headers()[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
        assert!((1..=5).contains(&seconds));
    }

    #[test]
    fn a_busy_pool_is_overload_and_a_broken_commit_has_an_unknown_outcome() {
        let busy = DbError::Busy { pool_size: 1, waited_ms: 1 };
        assert_eq!(Problem::from(busy).code().code, "overloaded");
        assert_eq!(Problem::from(DbError::OutcomeUnknown).code().code, "outcome-unknown");
        assert_eq!(Problem::from(DbError::Aborted).code().code, "internal");
    }
}
