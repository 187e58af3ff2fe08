//! Runs several operations on one connection in a single round trip.

use crate::DbError;
use futures_util::{future::BoxFuture, poll};
use std::task::Poll;

/// The first error, in the order of the operations.
#[derive(Debug)]
pub(crate) enum PipelineError {
    /// The error occurred before the rest was sent, so the rest never was.
    Unsent(DbError),
    /// Everything had already been sent.
    Sent(DbError),
}

/// Sends all `operations`, polling each once, and only then waits for their responses.
///
/// If an operation cannot be sent (its parameters cannot be encoded, the connection is gone), the ones behind it are
/// not sent either: a `COMMIT` must not follow a statement that the server never saw.
pub(crate) async fn pipeline(operations: Vec<BoxFuture<'_, Result<(), DbError>>>) -> Result<(), PipelineError> {
    let mut sent = Vec::with_capacity(operations.len());
    for mut operation in operations {
        match poll!(&mut operation) {
            Poll::Pending => sent.push(operation),
            Poll::Ready(answer) => answer.map_err(PipelineError::Unsent)?,
        }
    }
    for operation in sent {
        operation.await.map_err(PipelineError::Sent)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    fn failed(what: &str) -> Result<(), DbError> {
        Err(DbError::Stale(what.into()))
    }

    #[tokio::test]
    async fn all_operations_are_sent_before_any_is_answered_and_the_first_error_counts() {
        let sent = Mutex::new(Vec::new());
        let operation = |name: &'static str, fails: bool, waits: u32| -> BoxFuture<'_, _> {
            let sent = &sent;
            Box::pin(async move {
                sent.lock().push(name);
                for _ in 0..waits {
                    tokio::task::yield_now().await;
                }
                if fails { failed(name) } else { Ok(()) }
            })
        };
        let operations = vec![operation("a", false, 3), operation("b", true, 9), operation("c", true, 1)];
        let error = pipeline(operations).await.expect_err("two of them fail");
        assert!(matches!(&error, PipelineError::Sent(DbError::Stale(what)) if what == "b"), "{error:?}");
        assert_eq!(*sent.lock(), ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn operations_after_one_that_cannot_be_sent_are_not_sent() {
        let operations: Vec<BoxFuture<'_, _>> = vec![
            Box::pin(std::future::pending()),
            Box::pin(async { failed("it cannot be encoded") }),
            Box::pin(async { panic!("this would be the COMMIT") }),
        ];
        let error = pipeline(operations).await.expect_err("the second fails");
        assert!(matches!(error, PipelineError::Unsent(_)), "{error:?}");
    }
}
