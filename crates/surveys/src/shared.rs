//! A Redis that processes share definitions by, where one is set.
//!
//! It spares the database reads and nothing else: whatever goes wrong with it is as if it did not hold what was asked for, and
//! after a failure it is left alone for a while.

use crate::settings::Secret;
use redis::{Client, Cmd, FromRedisValue, aio::MultiplexedConnection};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

const PATIENCE: Duration = Duration::from_millis(250);
const LEFT_ALONE: Duration = Duration::from_secs(5);
const KEPT_S: u64 = 24 * 60 * 60;

/// A connection that is made when it is needed.
pub(crate) struct Shared {
    client: Client,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<MultiplexedConnection>,
    alone_until: Option<Instant>,
}

impl Shared {
    /// `None` where nothing is set, or nothing that can be used; the log says so.
    pub(crate) fn new(url: &Secret) -> Option<Self> {
        if url.is_empty() {
            return None;
        }
        match Client::open(url.0.as_str()) {
            Ok(client) => Some(Self { client, state: Mutex::default() }),
            Err(_) => {
                // The error may repeat the URL, which may hold a password.
                tracing::warn!("surveys.cache_url is not a URL of a Redis; definitions are kept in memory only");
                None
            }
        }
    }

    pub(crate) async fn get(&self, key: &str) -> Option<String> {
        self.ask::<Option<String>>(redis::cmd("GET").arg(key)).await.flatten()
    }

    pub(crate) async fn put(&self, key: &str, text: &str) {
        self.ask::<()>(redis::cmd("SET").arg(key).arg(text).arg("EX").arg(KEPT_S)).await;
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Option<T> {
        let mut connection = self.connection().await?;
        match tokio::time::timeout(PATIENCE, command.query_async(&mut connection)).await {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => self.leave_alone(&error.to_string()).await,
            Err(late) => self.leave_alone(&late.to_string()).await,
        }
        None
    }

    async fn connection(&self) -> Option<MultiplexedConnection> {
        let mut state = self.state.lock().await;
        if state.alone_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        if let Some(connection) = &state.connection {
            return Some(connection.clone());
        }
        let connecting = tokio::time::timeout(PATIENCE, self.client.get_multiplexed_async_connection());
        match connecting.await {
            Ok(Ok(connection)) => {
                state.connection = Some(connection.clone());
                Some(connection)
            }
            _ => {
                drop(state);
                self.leave_alone("no connection").await;
                None
            }
        }
    }

    async fn leave_alone(&self, error: &str) {
        tracing::warn!(error, "the shared cache of definitions cannot be used for now");
        *self.state.lock().await = State { connection: None, alone_until: Some(Instant::now() + LEFT_ALONE) };
    }
}
