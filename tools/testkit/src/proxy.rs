//! A network proxy in front of a server, which a test can silence or break.

use std::{
    net::{Ipv4Addr, SocketAddr, ToSocketAddrs},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::JoinSet,
};

const BACKLOG: u32 = 128;
const CHUNK_BYTES: usize = 16 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Forwarding,
    Stalled,
    Cut,
}

#[derive(Clone, Copy)]
struct ProxyState {
    mode: Mode,
    /// The number of cuts so far. A connection ends with the first cut after it started, however short the cut was.
    cuts: u64,
}

#[derive(Default)]
struct Counts {
    accepted: AtomicU64,
    open: AtomicU64,
    to_target: AtomicU64,
    from_target: AtomicU64,
}

/// The server, and the replacement in its responses.
#[derive(Clone)]
struct Upstream {
    target: SocketAddr,
    rewrite: Option<AddressRewrite>,
    counts: Arc<Counts>,
}

/// An address in the server's responses, and its replacement of the same length.
#[derive(Clone)]
struct AddressRewrite {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl AddressRewrite {
    /// Replaces the address. Responses that contain one are short and arrive in one piece.
    fn apply(&self, response: &mut [u8]) {
        let mut at = 0;
        while let Some(found) = response[at..].windows(self.from.len()).position(|window| window == self.from) {
            at += found;
            response[at..at + self.to.len()].copy_from_slice(&self.to);
        }
    }
}

/// Returns an address as it is encoded in a response of Kafka: the host, and the port in four bytes.
fn kafka_address(address: SocketAddr) -> Vec<u8> {
    [address.ip().to_string().as_bytes(), &u32::from(address.port()).to_be_bytes()].concat()
}

/// Forwards TCP connections to a server until it is stalled or cut. Dropping it closes them all.
pub struct TcpProxy {
    address: SocketAddr,
    state: watch::Sender<ProxyState>,
    counts: Arc<Counts>,
    /// Bound and never listening: it reserves the port while new connections are refused.
    _port: TcpSocket,
}

impl TcpProxy {
    /// Starts a proxy to `target`. Must be called within a Tokio runtime.
    pub fn to(target: SocketAddr) -> Self {
        Self::start(target, false)
    }

    fn start(target: SocketAddr, rewrites: bool) -> Self {
        let port = socket(0);
        let address = port.local_addr().expect("a bound socket has an address");
        let rewrite = rewrites.then(|| AddressRewrite { from: kafka_address(target), to: kafka_address(address) });
        let (state, watched) = watch::channel(ProxyState { mode: Mode::Forwarding, cuts: 0 });
        let counts = Arc::new(Counts::default());
        let listener = listen(address);
        let upstream = Upstream { target, rewrite, counts: counts.clone() };
        tokio::spawn(accept(address, listener, upstream, watched));
        Self { address, state, counts, _port: port }
    }

    /// Starts a proxy to the (first) server that `url` names. Kafka redirects its clients to its own address;
    /// the proxy replaces it, so that they stay behind the proxy.
    pub fn in_front_of(url: &str) -> Self {
        let (scheme, authority, _) = parts(url);
        let first = authority.rsplit('@').next().and_then(|hosts| hosts.split(',').next()).unwrap_or_default();
        let target = first.to_socket_addrs().ok().and_then(|mut found| found.next());
        let target = target.expect("the URL names a host that can be resolved, and a port");
        Self::start(target, scheme.starts_with("kafka"))
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `url` with this proxy in place of its host and port; credentials, path and query stay.
    pub fn url(&self, url: &str) -> String {
        let (scheme, authority, rest) = parts(url);
        let credentials = authority.rsplit_once('@').map(|(credentials, _)| format!("{credentials}@"));
        format!("{scheme}://{}{}{rest}", credentials.unwrap_or_default(), self.address)
    }

    /// Stops forwarding in both directions and closes nothing. New connections are accepted and equally silent.
    /// Anything sent meanwhile arrives after [`TcpProxy::resume`].
    pub fn stall(&self) {
        self.state.send_modify(|state| state.mode = Mode::Stalled);
    }

    /// Closes every connection and refuses new ones.
    pub fn cut(&self) {
        self.state.send_modify(|state| *state = ProxyState { mode: Mode::Cut, cuts: state.cuts + 1 });
    }

    /// Forwards again.
    pub fn resume(&self) {
        self.state.send_modify(|state| state.mode = Mode::Forwarding);
    }

    /// Returns the number of connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> u64 {
        self.counts.open.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes forwarded to the server.
    pub fn bytes_to_target(&self) -> u64 {
        self.counts.to_target.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes forwarded from the server.
    pub fn bytes_from_target(&self) -> u64 {
        self.counts.from_target.load(Ordering::SeqCst)
    }
}

fn parts(url: &str) -> (&str, &str, &str) {
    let (scheme, rest) = url.split_once("://").expect("a URL with a scheme");
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    (scheme, authority, rest)
}

fn socket(port: u16) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseport(true).expect("a port can be shared");
    socket.bind((Ipv4Addr::LOCALHOST, port).into()).expect("a free port");
    socket
}

fn listen(address: SocketAddr) -> TcpListener {
    socket(address.port()).listen(BACKLOG).expect("the port is ours")
}

/// Accepts connections until the proxy is dropped.
async fn accept(
    address: SocketAddr,
    listener: TcpListener,
    upstream: Upstream,
    mut watched: watch::Receiver<ProxyState>,
) {
    let mut connections = JoinSet::new();
    let mut listening = Some(listener);
    loop {
        let ProxyState { mode, cuts } = *watched.borrow_and_update();
        if mode == Mode::Cut {
            listening = None;
        } else if listening.is_none() {
            listening = Some(listen(address));
        }
        let next = async {
            match &listening {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = next => if let Ok((client, _)) = accepted {
                connections.spawn(connection(client, upstream.clone(), watched.clone(), cuts));
            },
            changed = watched.changed() => if changed.is_err() {
                return;
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(client: TcpStream, upstream: Upstream, mut watched: watch::Receiver<ProxyState>, cuts: u64) {
    let counts = &upstream.counts;
    counts.accepted.fetch_add(1, Ordering::SeqCst);
    counts.open.fetch_add(1, Ordering::SeqCst);
    let forwarding = watched.clone();
    tokio::select! {
        biased;
        _ = watched.wait_for(|state| state.cuts != cuts) => {}
        _ = forward(client, &upstream, forwarding) => {}
    }
    counts.open.fetch_sub(1, Ordering::SeqCst);
}

/// Connects to the server only once forwarding is allowed.
async fn forward(client: TcpStream, upstream: &Upstream, mut watched: watch::Receiver<ProxyState>) -> Option<()> {
    watched.wait_for(|state| state.mode == Mode::Forwarding).await.ok()?;
    let server = TcpStream::connect(upstream.target).await.ok()?;
    client.set_nodelay(true).ok()?;
    server.set_nodelay(true).ok()?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = copy(from_client, to_server, watched.clone(), None, &upstream.counts.to_target);
    let responses = copy(from_server, to_client, watched, upstream.rewrite.as_ref(), &upstream.counts.from_target);
    tokio::join!(requests, responses);
    Some(())
}

/// Copies until the source ends, and then shuts down the other side.
async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut watched: watch::Receiver<ProxyState>,
    rewrite: Option<&AddressRewrite>,
    forwarded: &AtomicU64,
) -> Option<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).await.unwrap_or(0);
        watched.wait_for(|state| state.mode == Mode::Forwarding).await.ok()?;
        if read == 0 {
            return to.shutdown().await.ok();
        }
        if let Some(rewrite) = rewrite {
            rewrite.apply(&mut chunk[..read]);
        }
        to.write_all(&chunk[..read]).await.ok()?;
        forwarded.fetch_add(read as u64, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventually;
    use std::{io::ErrorKind, time::Duration};
    use tokio::time::timeout;

    const SILENCE: Duration = Duration::from_millis(100);

    /// Starts a server that echoes what it receives.
    async fn echo_server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = client.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn echoed(client: &mut TcpStream, sent: &[u8]) -> std::io::Result<Vec<u8>> {
        client.write_all(sent).await?;
        received(client, sent.len()).await
    }

    async fn received(client: &mut TcpStream, bytes: usize) -> std::io::Result<Vec<u8>> {
        let mut received = vec![0; bytes];
        client.read_exact(&mut received).await?;
        Ok(received)
    }

    #[tokio::test]
    async fn bytes_are_forwarded_and_counted() {
        let proxy = TcpProxy::to(echo_server().await);
        let mut client = TcpStream::connect(proxy.address()).await.expect("the proxy accepts");
        let sent = vec![7; 3 * CHUNK_BYTES + 1];
        assert_eq!(echoed(&mut client, &sent).await.expect("the proxy forwards the echo"), sent);
        assert_eq!((proxy.accepted(), proxy.open()), (1, 1));
        assert_eq!(proxy.bytes_to_target(), sent.len() as u64);
        drop(client);
        eventually("the end is forwarded", || async { (proxy.open() == 0).then_some(()) }).await;
        assert_eq!(proxy.bytes_from_target(), sent.len() as u64);
    }

    #[tokio::test]
    async fn a_stalled_proxy_is_silent_and_loses_nothing() {
        let proxy = TcpProxy::to(echo_server().await);
        let mut old = TcpStream::connect(proxy.address()).await.expect("the proxy accepts");
        echoed(&mut old, b"before").await.expect("the proxy forwards the echo");
        proxy.stall();
        let mut new = TcpStream::connect(proxy.address()).await.expect("a stalled proxy accepts");
        for client in [&mut old, &mut new] {
            assert!(timeout(SILENCE, echoed(client, b"during")).await.is_err(), "a stalled proxy forwarded bytes");
        }
        proxy.resume();
        for client in [&mut old, &mut new] {
            assert_eq!(received(client, 6).await.expect("the proxy forwards the echo"), b"during");
        }
    }

    #[tokio::test]
    async fn a_cut_proxy_closes_connections_and_refuses_new_ones() {
        let proxy = TcpProxy::to(echo_server().await);
        let mut old = TcpStream::connect(proxy.address()).await.expect("the proxy accepts");
        echoed(&mut old, b"before").await.expect("the proxy forwards the echo");
        proxy.cut();
        assert!(received(&mut old, 1).await.is_err());
        eventually("connections are refused", || async {
            let refused = TcpStream::connect(proxy.address()).await.err()?;
            (refused.kind() == ErrorKind::ConnectionRefused).then_some(())
        })
        .await;
        proxy.resume();
        let mut new =
            eventually("connections are accepted", || async { TcpStream::connect(proxy.address()).await.ok() }).await;
        assert_eq!(echoed(&mut new, b"after").await.expect("the proxy forwards the echo"), b"after");
    }

    #[tokio::test]
    async fn even_the_shortest_cut_closes_connections() {
        let proxy = TcpProxy::to(echo_server().await);
        let mut old = TcpStream::connect(proxy.address()).await.expect("the proxy accepts");
        echoed(&mut old, b"before").await.expect("the proxy forwards the echo");
        proxy.cut();
        proxy.resume();
        assert!(received(&mut old, 1).await.is_err());
    }

    #[tokio::test]
    async fn addresses_in_responses_of_kafka_are_replaced_by_the_proxys() {
        let server = echo_server().await;
        let proxy = TcpProxy::in_front_of(&format!("kafka://{server}"));
        let mut client = TcpStream::connect(proxy.address()).await.expect("the proxy accepts");
        let response = |address| [b"before", &kafka_address(address)[..], b"between", &kafka_address(address)].concat();
        assert_eq!(
            echoed(&mut client, &response(server)).await.expect("the proxy forwards the echo"),
            response(proxy.address())
        );
    }

    #[tokio::test]
    async fn only_host_and_port_of_a_url_are_replaced() {
        let proxy = TcpProxy::in_front_of("kafka://localhost:9,other:10");
        let address = proxy.address();
        assert_eq!(proxy.url("amqp://u:p@ss@host:5672/%2f?x=y"), format!("amqp://u:p@ss@{address}/%2f?x=y"));
        assert_eq!(proxy.url("redis://host:1"), format!("redis://{address}"));
        assert_eq!(proxy.url("kafka://a:1,b:2?acks=all"), format!("kafka://{address}?acks=all"));
    }
}
