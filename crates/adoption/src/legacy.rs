//! The connection to the legacy database: as its owner, and in nobody's way.

use crate::{AdoptionError, store};
use onceward::{DbConfig, DbError, db::migrate};
use std::{future::Future, time::Duration};
use tokio_postgres::Client;

/// A change that does not get its lock in this time lets those behind it go first, and tries again.
const LOCK_TIMEOUT_MS: u32 = 2_000;
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(250);

/// Connects. Nobody waits for this session longer than a moment.
pub(crate) async fn connect(config: &DbConfig) -> Result<Client, AdoptionError> {
    let client = migrate::owner(config).await?;
    store::prepare_session(&client, LOCK_TIMEOUT_MS).await?;
    Ok(client)
}

/// Does `attempt` until it gets its locks, a bounded number of times.
pub(crate) async fn patiently<T, F>(what: &str, mut attempt: impl FnMut() -> F) -> Result<T, AdoptionError>
where
    F: Future<Output = Result<T, tokio_postgres::Error>>,
{
    for _ in 0..TRIES {
        match attempt().await.map_err(DbError::from) {
            Err(error) if error.is_transient() && !error.is_unavailable() => tokio::time::sleep(PAUSE).await,
            other => return Ok(other?),
        }
    }
    Err(AdoptionError::Locked(what.to_owned()))
}
