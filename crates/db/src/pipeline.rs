//! Several operations on one connection for the price of one round trip.

use crate::DbError;
use futures_util::{future::BoxFuture, poll};
use std::task::Poll;

/// What went wrong first, in the order of the operations.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It came to light before the rest was sent, so the rest never was.
    Unsent(DbError),
    /// All was on its way already.
    Sent(DbError),
}

/// Sends all `operations`, each by polling it once, and only then waits for their answers.
///
/// One that cannot be sent (its parameters cannot be encoded, the connection is gone) keeps back those behind it: a
/// `COMMIT` must not follow a statement that the server never saw.
pub(crate) async fn pipeline(operations: Vec<BoxFuture<'_, Result<(), DbError>>>) -> Result<(), Broken> {
    let mut sent = Vec::with_capacity(operations.len());
    for mut operation in operations {
        match poll!(&mut operation) {
            Poll::Pending => sent.push(operation),
            Poll::Ready(answer) => answer.map_err(Broken::Unsent)?,
        }
    }
    for operation in sent {
        operation.await.map_err(Broken::Sent)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn failed(what: &str) -> Result<(), DbError> {
        Err(DbError::Stale(what.into()))
    }

    #[tokio::test]
    async fn all_are_sent_before_any_is_answered_and_the_first_error_counts() {
        let seen = Mutex::new(Vec::new());
        let operation = |name: &'static str, fails: bool, waits: u32| -> BoxFuture<'_, _> {
            let seen = &seen;
            Box::pin(async move {
                seen.lock().expect("no panic").push(name);
                for _ in 0..waits {
                    tokio::task::yield_now().await;
                }
                if fails { failed(name) } else { Ok(()) }
            })
        };
        let operations = vec![operation("a", false, 3), operation("b", true, 9), operation("c", true, 1)];
        let broken = pipeline(operations).await.expect_err("two of them fail");
        assert!(matches!(&broken, Broken::Sent(DbError::Stale(what)) if what == "b"), "{broken:?}");
        assert_eq!(*seen.lock().expect("no panic"), ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn what_comes_behind_one_that_cannot_be_sent_is_kept_back() {
        let operations: Vec<BoxFuture<'_, _>> = vec![
            Box::pin(std::future::pending()),
            Box::pin(async { failed("it cannot be encoded") }),
            Box::pin(async { panic!("this would be the COMMIT") }),
        ];
        let broken = pipeline(operations).await.expect_err("the second fails");
        assert!(matches!(broken, Broken::Unsent(_)), "{broken:?}");
    }
}
