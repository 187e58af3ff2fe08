//! The readiness check that every connection has a dedicated server session.
//!
//! It opens connections and makes many round trips, so it runs in its own task: a readiness request that times out does
//! not end it, and later requests read its last result.

use onceward_db::{Db, DbError, session};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

const VALID_FOR: Duration = Duration::from_secs(300);
/// The pause after a bad result, or after none could be obtained.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The check and its last result.
#[derive(Clone)]
pub(crate) struct DedicatedSessionCheck {
    db: Db,
    last: watch::Sender<Option<CheckResult>>,
    is_running: Arc<AtomicBool>,
}

#[derive(Clone)]
struct CheckResult {
    next_check_at: Instant,
    result: Result<(), String>,
}

impl CheckResult {
    /// If the check could not run, a good result is kept: another check reports an unreachable database, and a server
    /// without free connections does not change existing sessions.
    fn after(last: Option<&Self>, checked: Result<(), DbError>) -> Self {
        let was_good = last.is_some_and(|last| last.result.is_ok());
        let (valid_for, result) = match checked {
            Ok(()) => (VALID_FOR, Ok(())),
            Err(error) if was_good && !matches!(error, DbError::Config(_)) => {
                tracing::warn!(%error, "checking for dedicated database sessions failed; retrying");
                (RETRY_AFTER, Ok(()))
            }
            Err(error) => (RETRY_AFTER, Err(error.to_string())),
        };
        Self { next_check_at: Instant::now() + valid_for, result }
    }
}

impl DedicatedSessionCheck {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, last: watch::Sender::default(), is_running: Arc::default() }
    }

    /// Returns the last result, and starts a new check if it has expired. Waits only for the first result.
    pub(crate) async fn last_result(&self) -> Result<(), String> {
        let mut results = self.last.subscribe();
        let is_due = results.borrow().as_ref().is_none_or(|last| last.next_check_at <= Instant::now());
        if is_due && !self.is_running.swap(true, Ordering::AcqRel) {
            let running = RunningGuard(self.is_running.clone());
            tokio::spawn(self.clone().refresh(running));
        }
        match results.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(last)) => last.result.clone(),
            _ => Err("the check for dedicated database sessions has stopped; restart the process".into()),
        }
    }

    async fn refresh(self, _running: RunningGuard) {
        let checked = session::require_own(&self.db).await;
        let result = CheckResult::after(self.last.borrow().as_ref(), checked);
        self.last.send_replace(Some(result));
    }
}

/// Dropping it allows another run, also after a panic.
struct RunningGuard(Arc<AtomicBool>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unobtainable() -> Result<(), DbError> {
        Err(DbError::Unavailable("sorry, too many clients already".into()))
    }

    #[test]
    fn a_check_that_fails_keeps_a_good_result_and_is_retried_soon() {
        let good = CheckResult::after(None, Ok(()));
        let kept = CheckResult::after(Some(&good), unobtainable());
        assert_eq!(kept.result, Ok(()));
        assert!(kept.next_check_at < good.next_check_at);
        assert!(CheckResult::after(None, unobtainable()).result.is_err(), "there was no result before");
        let shared = CheckResult::after(Some(&kept), Err(DbError::Config("a pooler".into())));
        assert!(shared.result.is_err());
        assert!(CheckResult::after(Some(&shared), unobtainable()).result.is_err(), "a bad result is kept, too");
    }
}
