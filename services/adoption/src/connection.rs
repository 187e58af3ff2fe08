//! The connection to the legacy database, as its owner, with short lock timeouts so that it does not block the old
//! program.

use crate::{AdoptionError, store};
use onceward::{DbConfig, DbError, db::migrate};
use std::{future::Future, time::Duration};
use tokio_postgres::Client;

/// A statement that waits longer for its lock fails, which lets the sessions queued behind it proceed, and is retried.
const LOCK_TIMEOUT_MS: u32 = 2_000;
const ATTEMPTS: u32 = 60;
const PAUSE: Duration = Duration::from_millis(250);

/// Connects as the owner and sets the timeouts of the session.
pub(crate) async fn connect(config: &DbConfig) -> Result<Client, AdoptionError> {
    let client = migrate::owner(config).await?;
    store::prepare_session(&client, LOCK_TIMEOUT_MS).await?;
    Ok(client)
}

/// Runs `attempt` until it gets its locks. Fails with [`AdoptionError::Locked`] after a bounded number of attempts.
pub(crate) async fn with_lock_retries<T, F>(what: &str, mut attempt: impl FnMut() -> F) -> Result<T, AdoptionError>
where
    F: Future<Output = Result<T, tokio_postgres::Error>>,
{
    for _ in 0..ATTEMPTS {
        match attempt().await.map_err(DbError::from) {
            Err(error) if error.is_transient() && !error.is_unavailable() => tokio::time::sleep(PAUSE).await,
            other => return Ok(other?),
        }
    }
    Err(AdoptionError::Locked(what.to_owned()))
}
