//! The task that extends the lease of an exclusive reader.

use std::{future::Future, panic::resume_unwind};
use tokio_util::task::AbortOnDropHandle;

/// A running renewal; dropping it ends the task.
pub(crate) struct Renewal(Option<AbortOnDropHandle<()>>);

impl Renewal {
    /// Starts `work`, which returns once the lease can no longer be extended.
    pub fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(AbortOnDropHandle::new(tokio::spawn(work))))
    }

    /// For a reader without a lease.
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns whether the lease is no longer extended, so that the session must end.
    ///
    /// # Panics
    /// If the task panicked: the reader runs under the process's supervisor, which then counts the failure and restarts it.
    pub async fn has_ended(&mut self) -> bool {
        match &mut self.0 {
            Some(task) if task.is_finished() => match task.await {
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                _ => true,
            },
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Polls as a reader does, until the renewal has ended.
    async fn ended(mut renewal: Renewal) {
        let waiting = async {
            while !renewal.has_ended().await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the task ends in time");
    }

    #[tokio::test]
    async fn a_panic_in_the_renewal_is_propagated_to_the_reader() {
        let reader = tokio::spawn(ended(Renewal::start(async { panic!("on purpose") })));
        assert!(reader.await.is_err_and(|error| error.is_panic()));
    }

    #[tokio::test]
    async fn a_lost_lease_ends_the_session() {
        ended(Renewal::start(async {})).await;
    }

    #[tokio::test]
    async fn a_session_continues_while_its_lease_is_extended_or_without_one() {
        assert!(!Renewal::start(std::future::pending()).has_ended().await);
        assert!(!Renewal::none().has_ended().await);
    }
}
