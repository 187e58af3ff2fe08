//! One connection to RabbitMQ. It ends for certain when nobody holds it any more.

use crate::{locked, trouble::Trouble};
use async_compat::Compat;
use futures_util::FutureExt;
use lapin::{
    AsyncTcpStream, Channel, Connection, ConnectionProperties,
    tcp::TLSConfig,
    uri::{AMQPScheme, AMQPUri},
};
use onceward_transport::{BrokerConfig, BrokerError, without_credentials};
use std::{
    collections::HashSet,
    io,
    net::{Shutdown, TcpStream},
    ops::Deref,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::timeout;

/// The code that an end in order carries.
pub(crate) const OK: u16 = 200;
/// How long an end in order may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// A connection and what is known of the broker as long as it lasts.
pub(crate) struct Wire {
    connection: Connection,
    answer_timeout: Duration,
    /// Exchanges that are there.
    pub(crate) exchanges: Mutex<HashSet<String>>,
    /// Queues that are read exclusively over this very connection.
    pub(crate) reading: Mutex<HashSet<String>>,
    /// A channel for the next who has a question.
    pub(crate) spare: Mutex<Option<Channel>>,
    /// The last field, so that the connection goes first.
    _socket: Ending,
}

impl Wire {
    /// Connects with the credentials of this moment.
    pub(crate) async fn connect(config: &BrokerConfig, purpose: &str) -> Result<Self, BrokerError> {
        let url = config.address.read()?;
        let place = without_credentials(&url);
        let uri = parse(&url, config.heartbeat).ok_or_else(|| {
            let example = "amqp://user:password@host:5672/%2f, with special characters of the password percent-encoded";
            BrokerError::Misconfigured(format!("{place} is not a RabbitMQ URL: write {example}"))
        })?;
        let runtime = lapin::runtime::default_runtime().map_err(|error| Trouble::from(error).into_broker_error())?;
        let properties = ConnectionProperties::default().with_connection_name(format!("onceward {purpose}").into());
        let socket = Ending::default();
        let slot = socket.0.clone();
        let limit = config.connect_timeout;
        let dialling = async move |uri: AMQPUri, _| Ok(dial(&uri, &slot, limit).await?);
        let connection = match timeout(limit, Connection::connector(uri, runtime, dialling, properties)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(Trouble::from(error).into_connect_error(&place)),
            Err(_) => return Err(BrokerError::Unavailable(format!("{place} did not answer within {limit:?}"))),
        };
        Ok(Self {
            connection,
            answer_timeout: config.publish_timeout,
            exchanges: Mutex::default(),
            reading: Mutex::default(),
            spare: Mutex::default(),
            _socket: socket,
        })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.connection.status().connected()
    }

    /// The broker has told us to stop publishing.
    pub(crate) fn is_held_back(&self) -> bool {
        self.connection.status().blocked()
    }

    pub(crate) fn user(&self) -> String {
        self.connection.status().username()
    }

    pub(crate) fn frame_max_bytes(&self) -> usize {
        usize::try_from(self.connection.configuration().frame_max()).unwrap_or(usize::MAX)
    }

    /// A question to the broker, which has an end.
    pub(crate) async fn ask<T>(&self, question: impl Future<Output = lapin::Result<T>>) -> Result<T, Trouble> {
        let limit = self.answer_timeout;
        match timeout(limit, question).await {
            Ok(answered) => Ok(answered?),
            Err(_) => Err(Trouble::Lost(format!("no answer within {limit:?}"))),
        }
    }

    pub(crate) async fn channel(&self) -> Result<Channel, Trouble> {
        self.ask(self.connection.create_channel()).await
    }

    pub(crate) async fn reading_channel(&self) -> Result<ReadingChannel, Trouble> {
        Ok(ReadingChannel(self.channel().await?))
    }

    /// Says goodbye. Who does not answer is left all the same.
    pub(crate) async fn close(&self) {
        let _ = timeout(GOODBYE, self.connection.close(OK, "OK".into())).await;
    }
}

/// A channel with a consumer, that ends all at once. Let go, the library would first cancel the consumer. Messages that
/// are on their way to a cancelled consumer are put at the end of a quorum queue, behind those that come after them; those on
/// their way to a channel that ends stay where they were.
pub(crate) struct ReadingChannel(Channel);

impl Deref for ReadingChannel {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.0
    }
}

impl Drop for ReadingChannel {
    fn drop(&mut self) {
        // The first look sends the frame; nobody needs the answer.
        let _ = self.0.close(OK, "OK".into()).now_or_never();
    }
}

fn parse(url: &str, silence: Duration) -> Option<AMQPUri> {
    let mut uri: AMQPUri = url.parse().ok()?;
    // The parser takes an address in brackets for no host at all, and falls back to this machine.
    let authority = url.split("://").nth(1)?.split(['/', '?']).next()?;
    if let Some(address) = authority.rsplit('@').next()?.strip_prefix('[') {
        uri.authority.host = address.split(']').next()?.to_owned();
    }
    // Two heartbeats that do not come are one silence.
    uri.query.heartbeat = Some(u16::try_from(silence.as_secs() / 2).unwrap_or(u16::MAX).max(1));
    Some(uri)
}

async fn dial(
    uri: &AMQPUri,
    slot: &Mutex<Slot>,
    limit: Duration,
) -> io::Result<AsyncTcpStream<Compat<tokio::net::TcpStream>>> {
    let dialling = async {
        let host = uri.authority.host.as_str();
        let stream = tokio::net::TcpStream::connect((host, uri.authority.port)).await?;
        stream.set_nodelay(true)?;
        let socket = stream.into_std()?;
        locked(slot).keep(socket.try_clone()?)?;
        let plain = AsyncTcpStream::Plain(Compat::new(tokio::net::TcpStream::from_std(socket)?));
        match uri.scheme {
            AMQPScheme::AMQP => Ok(plain),
            AMQPScheme::AMQPS => plain.into_tls(host, TLSConfig::default()).await,
        }
    };
    timeout(limit, dialling).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Ends a connection in whatever state it is. Left to itself, one that waits for an answer which never comes
/// would wait, with its thread, for as long as the process lives.
#[derive(Default)]
struct Ending(Arc<Mutex<Slot>>);

#[derive(Default)]
enum Slot {
    #[default]
    NotYet,
    Open(TcpStream),
    Ended,
}

impl Slot {
    fn keep(&mut self, socket: TcpStream) -> io::Result<()> {
        if matches!(self, Self::Ended) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        *self = Self::Open(socket);
        Ok(())
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut slot = locked(&self.0);
        if let Slot::Open(socket) = std::mem::replace(&mut *slot, Slot::Ended) {
            // Fails if the other side was quicker.
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
    fn silence_is_two_heartbeats() {
        assert_eq!(parsed("amqp://host", 10).query.heartbeat, Some(5));
        assert_eq!(parsed("amqp://host?heartbeat=60", 3).query.heartbeat, Some(1));
        assert_eq!(parsed("amqp://host", 0).query.heartbeat, Some(1));
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        assert_eq!(parsed("amqps://u:p@rabbit.example/v", 10).authority.host, "rabbit.example");
        assert_eq!(parsed("amqp://u:p@10.0.0.1:5673/v", 10).authority.host, "10.0.0.1");
        assert_eq!(parsed("amqp://u:p@[::1]:5673/v", 10).authority.host, "::1");
        assert_eq!(parsed("amqp://u:p@[::1]:5673/v", 10).authority.port, 5673);
    }

    #[test]
    fn other_urls_are_refused() {
        assert!(parse("redis://host", Duration::ZERO).is_none());
        assert!(parse("host", Duration::ZERO).is_none());
    }
}
