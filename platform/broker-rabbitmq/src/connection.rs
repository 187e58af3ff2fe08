//! One connection to RabbitMQ, and a connection that is opened on first use and reopened after it is lost. A socket is
//! closed in any case when the last reference to its connection is dropped.

use crate::error::AmqpError;
use async_compat::Compat;
use futures_util::FutureExt;
use lapin::{
    AsyncTcpStream, Channel, Connection, ConnectionProperties,
    tcp::TLSConfig,
    uri::{AMQPScheme, AMQPUri},
};
use onceward_broker::{BrokerConfig, BrokerError, without_credentials};
use parking_lot::Mutex;
use std::{
    collections::HashSet,
    io,
    net::{Shutdown, TcpStream},
    ops::Deref,
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;

/// The reply code of an orderly close.
pub(crate) const REPLY_SUCCESS: u16 = 200;
/// How long an orderly close may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection, and what is known about the broker while it lasts.
pub(crate) struct AmqpConnection {
    connection: Connection,
    call_timeout: Duration,
    /// Exchanges that are known to exist.
    pub(crate) known_exchanges: Mutex<HashSet<String>>,
    /// Queues that are read exclusively over this connection.
    pub(crate) reserved_queues: Mutex<HashSet<String>>,
    /// An idle channel for the next administrative call.
    pub(crate) spare_channel: Mutex<Option<Channel>>,
    /// The last field, so that it is dropped after the connection.
    _socket: SocketGuard,
}

impl AmqpConnection {
    /// Connects with the current credentials. `purpose` is part of the connection name that RabbitMQ shows.
    pub(crate) async fn connect(config: &BrokerConfig, purpose: &str) -> Result<Self, BrokerError> {
        let url = config.address.read()?;
        let address = without_credentials(&url);
        let uri = parse(&url, config.heartbeat).ok_or_else(|| {
            BrokerError::Misconfigured(format!(
                "{address} is not a valid RabbitMQ URL: use amqp://user:password@host:5672/%2f, with special characters in \
                 the password percent-encoded"
            ))
        })?;
        let runtime = lapin::runtime::default_runtime().map_err(|error| AmqpError::from(error).into_broker_error())?;
        let properties = ConnectionProperties::default().with_connection_name(format!("onceward {purpose}").into());
        let socket = SocketGuard::default();
        let socket_state = socket.0.clone();
        let limit = config.connect_timeout;
        let connector = async move |uri: AMQPUri, _| Ok(dial(&uri, &socket_state, limit).await?);
        let connection = match timeout(limit, Connection::connector(uri, runtime, connector, properties)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(AmqpError::from(error).into_connect_error(&address)),
            Err(_) => return Err(BrokerError::Unavailable(format!("{address} did not respond within {limit:?}"))),
        };
        Ok(Self {
            connection,
            call_timeout: config.publish_timeout,
            known_exchanges: Mutex::default(),
            reserved_queues: Mutex::default(),
            spare_channel: Mutex::default(),
            _socket: socket,
        })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.connection.status().connected()
    }

    /// Whether the broker blocks publishing on this connection (`connection.blocked`).
    pub(crate) fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    pub(crate) fn user(&self) -> String {
        self.connection.status().username()
    }

    pub(crate) fn frame_max_bytes(&self) -> usize {
        usize::try_from(self.connection.configuration().frame_max()).unwrap_or(usize::MAX)
    }

    /// Waits for a call to the broker, for at most the publish timeout.
    pub(crate) async fn call<T>(&self, call: impl Future<Output = lapin::Result<T>>) -> Result<T, AmqpError> {
        let limit = self.call_timeout;
        match timeout(limit, call).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(AmqpError::Lost(format!("no response within {limit:?}"))),
        }
    }

    pub(crate) async fn channel(&self) -> Result<Channel, AmqpError> {
        self.call(self.connection.create_channel()).await
    }

    pub(crate) async fn consumer_channel(&self) -> Result<ConsumerChannel, AmqpError> {
        Ok(ConsumerChannel(self.channel().await?))
    }

    /// Closes the connection in order; gives up silently if the broker does not reply in time.
    pub(crate) async fn close(&self) {
        let _ = timeout(CLOSE_TIMEOUT, self.connection.close(REPLY_SUCCESS, "OK".into())).await;
    }
}

/// The settings of a connection, and the connection once it is open.
pub(crate) struct LazyConnection {
    config: BrokerConfig,
    purpose: &'static str,
    connection: tokio::sync::Mutex<Option<Arc<AmqpConnection>>>,
}

impl LazyConnection {
    pub(crate) fn new(config: BrokerConfig, purpose: &'static str) -> Self {
        Self { config, purpose, connection: tokio::sync::Mutex::default() }
    }

    pub(crate) fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// Returns the connection, and opens it if needed. Concurrent callers wait for one attempt instead of starting others.
    pub(crate) async fn get(&self) -> Result<Arc<AmqpConnection>, BrokerError> {
        let limit = self.config.connect_timeout;
        let mut current = timeout(limit, self.connection.lock())
            .await
            .map_err(|_| BrokerError::Unavailable(format!("connecting to RabbitMQ took longer than {limit:?}")))?;
        if let Some(connection) = current.as_ref().filter(|connection| connection.is_alive()) {
            return Ok(connection.clone());
        }
        *current = None;
        let connection = Arc::new(AmqpConnection::connect(&self.config, self.purpose).await?);
        *current = Some(connection.clone());
        Ok(connection)
    }

    /// Returns the connection if one was opened, whether or not it is still alive.
    pub(crate) fn current(&self) -> Option<Arc<AmqpConnection>> {
        self.connection.try_lock().ok()?.clone()
    }

    pub(crate) async fn close(&self) {
        let connection = self.connection.lock().await.take();
        if let Some(connection) = connection.filter(|connection| connection.is_alive()) {
            connection.close().await;
        }
    }
}

/// A channel with a consumer, which is closed as a whole when dropped. By default the library would first cancel the
/// consumer. A quorum queue moves messages in flight to a cancelled consumer to its end, behind later ones; messages in
/// flight to a closed channel keep their place.
pub(crate) struct ConsumerChannel(Channel);

impl Deref for ConsumerChannel {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.0
    }
}

impl Drop for ConsumerChannel {
    fn drop(&mut self) {
        // The first poll sends the frame; the reply is not needed.
        let _ = self.0.close(REPLY_SUCCESS, "OK".into()).now_or_never();
    }
}

fn parse(url: &str, max_silence: Duration) -> Option<AMQPUri> {
    let mut uri: AMQPUri = url.parse().ok()?;
    // The parser does not recognise an IPv6 address in brackets as a host and falls back to localhost.
    let authority = url.split("://").nth(1)?.split(['/', '?']).next()?;
    if let Some(address) = authority.rsplit('@').next()?.strip_prefix('[') {
        uri.authority.host = address.split(']').next()?.to_owned();
    }
    // A connection counts as lost after two missed heartbeats.
    uri.query.heartbeat = Some(u16::try_from(max_silence.as_secs() / 2).unwrap_or(u16::MAX).max(1));
    Some(uri)
}

async fn dial(
    uri: &AMQPUri,
    socket_state: &Mutex<SocketState>,
    limit: Duration,
) -> io::Result<AsyncTcpStream<Compat<tokio::net::TcpStream>>> {
    let connector = async {
        let host = uri.authority.host.as_str();
        let stream = tokio::net::TcpStream::connect((host, uri.authority.port)).await?;
        stream.set_nodelay(true)?;
        let socket = stream.into_std()?;
        socket_state.lock().keep(socket.try_clone()?)?;
        let plain = AsyncTcpStream::Plain(Compat::new(tokio::net::TcpStream::from_std(socket)?));
        match uri.scheme {
            AMQPScheme::AMQP => Ok(plain),
            AMQPScheme::AMQPS => plain.into_tls(host, TLSConfig::default()).await,
        }
    };
    timeout(limit, connector).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Shuts the socket down when dropped, in whatever state the connection is. Otherwise a connection that waits for a reply
/// which never comes would keep its thread for the life of the process.
#[derive(Default)]
struct SocketGuard(Arc<Mutex<SocketState>>);

#[derive(Default)]
enum SocketState {
    #[default]
    NotConnected,
    Open(TcpStream),
    Closed,
}

impl SocketState {
    fn keep(&mut self, socket: TcpStream) -> io::Result<()> {
        if matches!(self, Self::Closed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        *self = Self::Open(socket);
        Ok(())
    }
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        let mut socket_state = self.0.lock();
        if let SocketState::Open(socket) = std::mem::replace(&mut *socket_state, SocketState::Closed) {
            // Fails if the peer has already closed it.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str, silence_secs: u64) -> AMQPUri {
        parse(url, Duration::from_secs(silence_secs)).unwrap()
    }

    #[test]
    fn the_heartbeat_is_half_of_the_longest_silence() {
        assert_eq!(parsed("amqp://host", 10).query.heartbeat, Some(5));
        assert_eq!(parsed("amqp://host?heartbeat=60", 3).query.heartbeat, Some(1));
        assert_eq!(parsed("amqp://host", 0).query.heartbeat, Some(1));
    }

    #[test]
    fn a_host_is_a_name_or_an_ip_address() {
        assert_eq!(parsed("amqps://u:p@rabbit.example/v", 10).authority.host, "rabbit.example");
        assert_eq!(parsed("amqp://u:p@10.0.0.1:5673/v", 10).authority.host, "10.0.0.1");
        assert_eq!(parsed("amqp://u:p@[::1]:5673/v", 10).authority.host, "::1");
        assert_eq!(parsed("amqp://u:p@[::1]:5673/v", 10).authority.port, 5673);
    }

    #[test]
    fn urls_of_other_schemes_are_rejected() {
        assert!(parse("redis://host", Duration::ZERO).is_none());
        assert!(parse("host", Duration::ZERO).is_none());
    }
}
