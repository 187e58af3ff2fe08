//! One connection, with a timeout for every reply. Dropping it closes it.

use onceward_broker::{BrokerConfig, BrokerError, without_credentials};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, ProtocolVersion,
    RedisError, RedisResult, ScriptInvocation, ServerErrorKind, Value, aio::MultiplexedConnection,
};
use std::{
    future::Future,
    io,
    time::{Duration, Instant},
};

/// A connection to Redis. Clones share it.
#[derive(Clone)]
pub(crate) struct RedisConnection {
    connection: MultiplexedConnection,
    response_timeout: Duration,
    last_response: Instant,
}

impl RedisConnection {
    /// Connects with the current address and credentials.
    pub async fn open(config: &BrokerConfig) -> Result<Self, BrokerError> {
        let url = config.address.read()?;
        let shown = without_credentials(&url);
        let invalid = |_| {
            let what =
                format!("the bus URL {shown} is not a valid Redis URL: use redis://host:port or rediss://host:port");
            BrokerError::Misconfigured(what)
        };
        let info = url.as_str().into_connection_info().map_err(invalid)?;
        if let redis::ConnectionAddr::TcpTls { .. } = info.addr() {
            install_crypto_provider();
        }
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
        let client = Client::open(info.set_redis_settings(settings)).map_err(invalid)?;
        let limits = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connecting = client.get_multiplexed_async_connection_with_config(&limits);
        let connection = within(config.connect_timeout, connecting)
            .await
            .map_err(|error| BrokerError::Unavailable(format!("cannot connect to {shown}: {error}")))?;
        Ok(Self { connection, response_timeout: config.heartbeat, last_response: Instant::now() })
    }

    /// Sends a command and waits for its reply.
    pub async fn command<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        self.command_within(self.response_timeout, command).await
    }

    /// Sends a command with its own timeout, for commands that block on the server.
    pub async fn command_within<T: FromRedisValue>(&mut self, most: Duration, command: &Cmd) -> RedisResult<T> {
        let reply = within(most, command.query_async(&mut self.connection)).await?;
        self.last_response = Instant::now();
        Ok(reply)
    }

    /// Runs a script.
    pub async fn script<T: FromRedisValue>(&mut self, script: &ScriptInvocation<'_>) -> RedisResult<T> {
        let reply = within(self.response_timeout, script.invoke_async(&mut self.connection)).await?;
        self.last_response = Instant::now();
        Ok(reply)
    }

    /// Runs commands as one transaction and returns the reply of each. If one cannot be queued, none is run.
    pub async fn transaction(&mut self, commands: &mut Pipeline) -> RedisResult<Vec<Value>> {
        let count = commands.atomic().len();
        let replies =
            within(self.response_timeout, self.connection.send_packed_commands(commands, count + 1, 1)).await?;
        self.last_response = Instant::now();
        match replies.into_iter().next() {
            Some(Value::Array(replies)) if replies.len() == count => Ok(replies),
            Some(Value::ServerError(error)) => Err(error.into()),
            _ => Err((ErrorKind::UnexpectedReturnType, "unexpected reply to a transaction").into()),
        }
    }

    /// Returns the time since the last reply.
    pub fn idle_for(&self) -> Duration {
        self.last_response.elapsed()
    }
}

async fn within<T>(most: Duration, reply: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    tokio::time::timeout(most, reply).await.unwrap_or_else(|_| {
        let what = format!("no reply within {} ms", most.as_millis());
        Err(io::Error::new(io::ErrorKind::TimedOut, what).into())
    })
}

/// Installs the TLS provider that the server program installs, for tests and tools that did not.
fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails if another thread installed one meanwhile, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Converts an error. None is about a single message: every error concerns the server's state.
pub(crate) fn broker_error(error: RedisError) -> BrokerError {
    let text = error.to_string();
    let codes: Vec<String> = match error.clone().into_server_errors() {
        Some(errors) => errors.iter().map(|(_, error)| error.code().to_owned()).collect(),
        None => Vec::new(),
    };
    let has = |code: &str| codes.iter().any(|found| found == code);
    if error.kind() == ErrorKind::Server(ServerErrorKind::Moved) || has("MOVED") || has("CROSSSLOT") {
        BrokerError::Misconfigured("Redis runs in cluster mode: use a server with cluster-enabled no".to_owned())
    } else if has("NOPERM") {
        BrokerError::Misconfigured(format!("the Redis user lacks a permission that the bus needs: {text}"))
    } else if has("WRONGTYPE") {
        BrokerError::Misconfigured(format!("a key of the bus has another type: {text}; rename or delete it"))
    } else {
        BrokerError::Unavailable(text)
    }
}

/// Converts the error of a command about a queue, whose stream or group may be missing.
pub(crate) fn queue_error(queue: &str, error: RedisError) -> BrokerError {
    let text = error.to_string();
    if text.contains("NOGROUP") || text.contains("no such key") {
        crate::names::missing(queue)
    } else {
        broker_error(error)
    }
}
