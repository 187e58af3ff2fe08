//! Waiting for something to become true.

use std::{future::Future, time::Duration};

/// How long a test waits before it says that something never came true. Generous, because it never decides
/// whether a test passes on a slow machine, only how long a failing one takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until there is an answer; panics with `what` when patience runs out.
pub async fn eventually<T, F, Fut>(what: &str, ask: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    eventually_within(PATIENCE, what, ask).await
}

/// The same with another patience, for what is much work.
pub async fn eventually_within<T, F, Fut>(patience: Duration, what: &str, mut ask: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(patience, asking).await.unwrap_or_else(|_| panic!("{what}: not within {patience:?}"))
}
