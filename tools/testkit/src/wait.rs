//! Waiting for a condition.

use std::{future::Future, time::Duration};

/// How long a test waits before it fails. Generous, because it never decides whether a test passes on a slow machine,
/// only how long a failing one takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Calls `poll` repeatedly until it returns a value; panics with `what` after [`PATIENCE`].
pub async fn eventually<T, F, Fut>(what: &str, poll: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    eventually_within(PATIENCE, what, poll).await
}

/// Like [`eventually`], with another time limit, for long work.
pub async fn eventually_within<T, F, Fut>(limit: Duration, what: &str, mut poll: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let polling = async {
        loop {
            if let Some(value) = poll().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(limit, polling).await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}
