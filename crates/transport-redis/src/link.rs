//! One connection, whose every answer is waited for with a limit. Dropping it ends it.

use onceward_transport::{BrokerConfig, BrokerError, without_credentials};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, ProtocolVersion,
    RedisError, RedisResult, ScriptInvocation, ServerErrorKind, Value, aio::MultiplexedConnection,
};
use std::{
    future::Future,
    io,
    time::{Duration, Instant},
};

/// A connection. Copies share it.
#[derive(Clone)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
    patience: Duration,
    heard_at: Instant,
}

impl Link {
    /// Connects with the address as it is now.
    pub async fn open(config: &BrokerConfig) -> Result<Self, BrokerError> {
        let url = config.address.read()?;
        let shown = without_credentials(&url);
        let invalid = |_| {
            let what = format!("the bus URL {shown} is not one of Redis: use redis://host:port or rediss://host:port");
            BrokerError::Misconfigured(what)
        };
        let info = url.as_str().into_connection_info().map_err(invalid)?;
        if let redis::ConnectionAddr::TcpTls { .. } = info.addr() {
            trust_ring();
        }
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
        let client = Client::open(info.set_redis_settings(settings)).map_err(invalid)?;
        let limits = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connecting = client.get_multiplexed_async_connection_with_config(&limits);
        let connection = within(config.connect_timeout, connecting)
            .await
            .map_err(|error| BrokerError::Unavailable(format!("cannot connect to {shown}: {error}")))?;
        Ok(Self { connection, patience: config.heartbeat, heard_at: Instant::now() })
    }

    /// Sends a command and waits for its answer.
    pub async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        self.ask_within(self.patience, command).await
    }

    /// The same for a command that may itself take its time.
    pub async fn ask_within<T: FromRedisValue>(&mut self, most: Duration, command: &Cmd) -> RedisResult<T> {
        let answer = within(most, command.query_async(&mut self.connection)).await?;
        self.heard_at = Instant::now();
        Ok(answer)
    }

    /// Runs a script.
    pub async fn call<T: FromRedisValue>(&mut self, script: &ScriptInvocation<'_>) -> RedisResult<T> {
        let answer = within(self.patience, script.invoke_async(&mut self.connection)).await?;
        self.heard_at = Instant::now();
        Ok(answer)
    }

    /// Runs commands as one transaction; each has its own answer. If one cannot even be queued, none is run.
    pub async fn transact(&mut self, commands: &mut Pipeline) -> RedisResult<Vec<Value>> {
        let count = commands.atomic().len();
        let answers = within(self.patience, self.connection.send_packed_commands(commands, count + 1, 1)).await?;
        self.heard_at = Instant::now();
        match answers.into_iter().next() {
            Some(Value::Array(answers)) if answers.len() == count => Ok(answers),
            Some(Value::ServerError(error)) => Err(error.into()),
            _ => Err((ErrorKind::UnexpectedReturnType, "a transaction was answered with something else").into()),
        }
    }

    /// How long it has been since anything was heard.
    pub fn silent_for(&self) -> Duration {
        self.heard_at.elapsed()
    }
}

async fn within<T>(most: Duration, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    tokio::time::timeout(most, answer).await.unwrap_or_else(|_| {
        let what = format!("no answer within {} ms", most.as_millis());
        Err(io::Error::new(io::ErrorKind::TimedOut, what).into())
    })
}

/// The program installs the provider; a test or a tool that forgot to gets the same.
fn trust_ring() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may have been faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// What an error means for the bus. None is about a message: whatever the server says, it says of its own state.
pub(crate) fn trouble(error: RedisError) -> BrokerError {
    let text = error.to_string();
    let codes: Vec<String> = match error.clone().into_server_errors() {
        Some(errors) => errors.iter().map(|(_, error)| error.code().to_owned()).collect(),
        None => Vec::new(),
    };
    let has = |code: &str| codes.iter().any(|known| known == code);
    if error.kind() == ErrorKind::Server(ServerErrorKind::Moved) || has("MOVED") || has("CROSSSLOT") {
        BrokerError::Misconfigured("Redis runs in cluster mode: use a server with cluster-enabled no".to_owned())
    } else if has("NOPERM") {
        BrokerError::Misconfigured(format!("the Redis user may not do what the bus needs: {text}"))
    } else if has("WRONGTYPE") {
        BrokerError::Misconfigured(format!("a key of the bus holds something else: {text}; rename or delete it"))
    } else {
        BrokerError::Unavailable(text)
    }
}

/// The same for a command about a queue, whose stream or group may not be there.
pub(crate) fn trouble_with(queue: &str, error: RedisError) -> BrokerError {
    let text = error.to_string();
    if text.contains("NOGROUP") || text.contains("no such key") { crate::names::missing(queue) } else { trouble(error) }
}
