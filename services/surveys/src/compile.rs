//! Compiles definitions outside the threads that serve requests, because compiling patterns takes time.

use crate::{
    SurveyError,
    definition::{Questionnaire, parse_definition},
};
use serde_json::Value;
use tokio::sync::Semaphore;

/// The maximum number of definitions compiled concurrently per process; others wait.
const CONCURRENT_MAX: usize = 2;
static COMPILING: Semaphore = Semaphore::const_new(CONCURRENT_MAX);

/// Parses and compiles a definition. Fails with [`SurveyError::InvalidDefinition`] if it is invalid.
pub(crate) async fn compile(definition: Value) -> Result<Questionnaire, SurveyError> {
    let _permit = COMPILING.acquire().await.map_err(|closed| SurveyError::CorruptData(closed.to_string()))?;
    let compiled = tokio::task::spawn_blocking(move || {
        let definition = parse_definition(&definition).map_err(|fault| SurveyError::InvalidDefinition(vec![fault]))?;
        Questionnaire::new(definition).map_err(SurveyError::InvalidDefinition)
    });
    compiled.await.map_err(|error| SurveyError::CorruptData(format!("compiling a definition failed: {error}")))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::cell::Cell;

    #[tokio::test]
    async fn other_requests_run_while_a_definition_is_compiled() {
        let questions =
            (0..8).map(|number| json!({"id": format!("q{number}"), "text": "", "type": "text", "pattern": "\\w{3}"}));
        let definition = json!({"pages": [{"id": "p", "questions": questions.collect::<Vec<_>>()}]});
        let (done, others) = (Cell::new(false), Cell::new(0_u64));
        let compiling = async {
            compile(definition).await.expect("the definition is valid");
            done.set(true);
        };
        // This test has one thread: if compiling ran on it, it would be finished before this future is first polled.
        let other = async {
            while !done.get() {
                others.set(others.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(compiling, other);
        assert!(others.get() > 0, "compiling blocked the thread");
    }
}
