//! An optional Redis through which processes share definitions and rate limits.
//!
//! Nothing depends on it: every failure is treated as a missing key, and after a failure the Redis is not used for a
//! while.

use crate::settings::SecretSetting;
use redis::{Client, Cmd, FromRedisValue, aio::MultiplexedConnection};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

const TIMEOUT: Duration = Duration::from_millis(250);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);
const KEY_TTL_S: u64 = 24 * 60 * 60;

/// A connection that is opened when it is first needed.
pub(crate) struct SharedRedis {
    client: Client,
    state: Mutex<RedisState>,
}

#[derive(Default)]
struct RedisState {
    connection: Option<MultiplexedConnection>,
    paused_until: Option<Instant>,
}

impl SharedRedis {
    /// Returns `None` if no URL is set or it cannot be used; the latter is logged.
    pub(crate) fn new(url: &SecretSetting) -> Option<Self> {
        if url.is_empty() {
            return None;
        }
        match Client::open(url.0.as_str()) {
            Ok(client) => Some(Self { client, state: Mutex::default() }),
            Err(_) => {
                // The error may contain the URL, which may contain a password.
                tracing::warn!(
                    "surveys.cache_url is not a valid Redis URL; definitions and rate limits are not shared between processes"
                );
                None
            }
        }
    }

    pub(crate) async fn get(&self, key: &str) -> Option<String> {
        self.query::<Option<String>>(redis::cmd("GET").arg(key)).await.flatten()
    }

    pub(crate) async fn set(&self, key: &str, text: &str) {
        self.query::<()>(redis::cmd("SET").arg(key).arg(text).arg("EX").arg(KEY_TTL_S)).await;
    }

    /// Runs a Lua script on one key.
    pub(crate) async fn eval(&self, script: &str, key: &str, args: &[u64]) -> Option<u64> {
        self.query(redis::cmd("EVAL").arg(script).arg(1).arg(key).arg(args)).await
    }

    /// Returns the result of a command, or `None` if the Redis does not return one in time.
    async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Option<T> {
        let mut connection = self.connection().await?;
        match tokio::time::timeout(TIMEOUT, command.query_async(&mut connection)).await {
            Ok(Ok(result)) => return Some(result),
            Ok(Err(error)) => self.pause(&error.to_string()).await,
            Err(elapsed) => self.pause(&elapsed.to_string()).await,
        }
        None
    }

    async fn connection(&self) -> Option<MultiplexedConnection> {
        let mut state = self.state.lock().await;
        if state.paused_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        if let Some(connection) = &state.connection {
            return Some(connection.clone());
        }
        let connecting = tokio::time::timeout(TIMEOUT, self.client.get_multiplexed_async_connection());
        match connecting.await {
            Ok(Ok(connection)) => {
                state.connection = Some(connection.clone());
                Some(connection)
            }
            _ => {
                drop(state);
                self.pause("connecting failed").await;
                None
            }
        }
    }

    async fn pause(&self, error: &str) {
        tracing::warn!(
            error,
            pause_s = PAUSE_AFTER_FAILURE.as_secs(),
            "the Redis of surveys.cache_url is unavailable; this process continues without it"
        );
        let paused_until = Some(Instant::now() + PAUSE_AFTER_FAILURE);
        *self.state.lock().await = RedisState { connection: None, paused_until };
    }
}
