//! A network in the way of a server, which a test can silence or break.

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
struct State {
    mode: Mode,
    /// A connection ends with the first cut after it began, however short that was.
    cuts: u64,
}

#[derive(Default)]
struct Counts {
    accepted: AtomicU64,
    open: AtomicU64,
    to_target: AtomicU64,
    from_target: AtomicU64,
}

/// Where connections go, and what is changed on the way back.
#[derive(Clone)]
struct Way {
    target: SocketAddr,
    names: Option<Names>,
    counts: Arc<Counts>,
}

/// An address in the server's answers, and another of the same length.
#[derive(Clone)]
struct Names {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Names {
    /// Answers with an address in them are short and come in one piece.
    fn replace(&self, answer: &mut [u8]) {
        let mut at = 0;
        while let Some(found) = answer[at..].windows(self.from.len()).position(|window| window == self.from) {
            at += found;
            answer[at..at + self.to.len()].copy_from_slice(&self.to);
        }
    }
}

/// The host, and the port in four bytes.
fn as_kafka_says(address: SocketAddr) -> Vec<u8> {
    [address.ip().to_string().as_bytes(), &u32::from(address.port()).to_be_bytes()].concat()
}

/// Forwards TCP connections to a server until told otherwise. Dropping it ends them all.
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    counts: Arc<Counts>,
    /// Bound and never listening: it keeps the port ours while new connections are refused.
    _port: TcpSocket,
}

impl Proxy {
    /// A forwarder to `target`. Needs a runtime around it.
    pub fn to(target: SocketAddr) -> Self {
        Self::start(target, false)
    }

    fn start(target: SocketAddr, renames: bool) -> Self {
        let port = socket(0);
        let address = port.local_addr().expect("a bound socket has an address");
        let names = renames.then(|| Names { from: as_kafka_says(target), to: as_kafka_says(address) });
        let (state, watched) = watch::channel(State { mode: Mode::Forwarding, cuts: 0 });
        let counts = Arc::new(Counts::default());
        let listener = listen(address);
        let way = Way { target, names, counts: counts.clone() };
        tokio::spawn(accept(address, listener, way, watched));
        Self { address, state, counts, _port: port }
    }

    /// A forwarder to the (first) server that `url` names. Kafka tells its clients where to go on; it is made to name
    /// the proxy, so that they stay behind it.
    pub fn before(url: &str) -> Self {
        let (scheme, authority, _) = parts(url);
        let first = authority.rsplit('@').next().and_then(|hosts| hosts.split(',').next()).unwrap_or_default();
        let target = first.to_socket_addrs().ok().and_then(|mut found| found.next());
        let target = target.expect("the URL names a host that can be resolved, and a port");
        Self::start(target, scheme.starts_with("kafka"))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `url` with this proxy in place of its host and port; credentials, path and query stay.
    pub fn url(&self, url: &str) -> String {
        let (scheme, authority, rest) = parts(url);
        let credentials = authority.rsplit_once('@').map(|(credentials, _)| format!("{credentials}@"));
        format!("{scheme}://{}{}{rest}", credentials.unwrap_or_default(), self.address)
    }

    /// Forwards nothing more in either direction and closes nothing. New connections are accepted, and as silent.
    /// What is sent meanwhile arrives after [`Proxy::resume`].
    pub fn stall(&self) {
        self.state.send_modify(|state| state.mode = Mode::Stalled);
    }

    /// Closes every connection and refuses new ones.
    pub fn cut(&self) {
        self.state.send_modify(|state| *state = State { mode: Mode::Cut, cuts: state.cuts + 1 });
    }

    /// Forwards again.
    pub fn resume(&self) {
        self.state.send_modify(|state| state.mode = Mode::Forwarding);
    }

    /// How many connections were made so far.
    pub fn accepted(&self) -> u64 {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// How many of them are open.
    pub fn open(&self) -> u64 {
        self.counts.open.load(Ordering::SeqCst)
    }

    /// How many bytes were forwarded to the server.
    pub fn bytes_to_target(&self) -> u64 {
        self.counts.to_target.load(Ordering::SeqCst)
    }

    /// How many bytes were forwarded from the server.
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

/// Ends when the proxy is dropped.
async fn accept(address: SocketAddr, listener: TcpListener, way: Way, mut watched: watch::Receiver<State>) {
    let mut connections = JoinSet::new();
    let mut listening = Some(listener);
    loop {
        let State { mode, cuts } = *watched.borrow_and_update();
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
                connections.spawn(connection(client, way.clone(), watched.clone(), cuts));
            },
            changed = watched.changed() => if changed.is_err() {
                return;
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(client: TcpStream, way: Way, mut watched: watch::Receiver<State>, cuts: u64) {
    let counts = &way.counts;
    counts.accepted.fetch_add(1, Ordering::SeqCst);
    counts.open.fetch_add(1, Ordering::SeqCst);
    let forwarding = watched.clone();
    tokio::select! {
        biased;
        _ = watched.wait_for(|state| state.cuts != cuts) => {}
        _ = forward(client, &way, forwarding) => {}
    }
    counts.open.fetch_sub(1, Ordering::SeqCst);
}

/// The server hears of a connection only once something may be forwarded.
async fn forward(client: TcpStream, way: &Way, mut watched: watch::Receiver<State>) -> Option<()> {
    watched.wait_for(|state| state.mode == Mode::Forwarding).await.ok()?;
    let server = TcpStream::connect(way.target).await.ok()?;
    client.set_nodelay(true).ok()?;
    server.set_nodelay(true).ok()?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there = pump(from_client, to_server, watched.clone(), None, &way.counts.to_target);
    let back = pump(from_server, to_client, watched, way.names.as_ref(), &way.counts.from_target);
    tokio::join!(there, back);
    Some(())
}

/// Ends when the source does, having told the other side.
async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut watched: watch::Receiver<State>,
    names: Option<&Names>,
    forwarded: &AtomicU64,
) -> Option<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).await.unwrap_or(0);
        watched.wait_for(|state| state.mode == Mode::Forwarding).await.ok()?;
        if read == 0 {
            return to.shutdown().await.ok();
        }
        if let Some(names) = names {
            names.replace(&mut chunk[..read]);
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

    const A_MOMENT: Duration = Duration::from_millis(100);

    /// A server that gives back what it is sent.
    async fn echo() -> SocketAddr {
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
        heard(client, sent.len()).await
    }

    async fn heard(client: &mut TcpStream, bytes: usize) -> std::io::Result<Vec<u8>> {
        let mut heard = vec![0; bytes];
        client.read_exact(&mut heard).await?;
        Ok(heard)
    }

    #[tokio::test]
    async fn bytes_are_forwarded_and_counted() {
        let proxy = Proxy::to(echo().await);
        let mut client = TcpStream::connect(proxy.address()).await.expect("it accepts");
        let sent = vec![7; 3 * CHUNK_BYTES + 1];
        assert_eq!(echoed(&mut client, &sent).await.expect("an echo"), sent);
        assert_eq!((proxy.accepted(), proxy.open()), (1, 1));
        assert_eq!(proxy.bytes_to_target(), sent.len() as u64);
        drop(client);
        eventually("the end is forwarded", || async { (proxy.open() == 0).then_some(()) }).await;
        assert_eq!(proxy.bytes_from_target(), sent.len() as u64);
    }

    #[tokio::test]
    async fn a_stalled_proxy_is_silent_and_loses_nothing() {
        let proxy = Proxy::to(echo().await);
        let mut old = TcpStream::connect(proxy.address()).await.expect("it accepts");
        echoed(&mut old, b"before").await.expect("an echo");
        proxy.stall();
        let mut new = TcpStream::connect(proxy.address()).await.expect("it accepts all the same");
        for client in [&mut old, &mut new] {
            assert!(timeout(A_MOMENT, echoed(client, b"during")).await.is_err(), "it answered");
        }
        proxy.resume();
        for client in [&mut old, &mut new] {
            assert_eq!(heard(client, 6).await.expect("an echo"), b"during");
        }
    }

    #[tokio::test]
    async fn a_cut_proxy_ends_connections_and_refuses_new_ones() {
        let proxy = Proxy::to(echo().await);
        let mut old = TcpStream::connect(proxy.address()).await.expect("it accepts");
        echoed(&mut old, b"before").await.expect("an echo");
        proxy.cut();
        assert!(heard(&mut old, 1).await.is_err());
        eventually("connections are refused", || async {
            let refused = TcpStream::connect(proxy.address()).await.err()?;
            (refused.kind() == ErrorKind::ConnectionRefused).then_some(())
        })
        .await;
        proxy.resume();
        let mut new =
            eventually("connections are accepted", || async { TcpStream::connect(proxy.address()).await.ok() }).await;
        assert_eq!(echoed(&mut new, b"after").await.expect("an echo"), b"after");
    }

    #[tokio::test]
    async fn the_shortest_cut_ends_connections() {
        let proxy = Proxy::to(echo().await);
        let mut old = TcpStream::connect(proxy.address()).await.expect("it accepts");
        echoed(&mut old, b"before").await.expect("an echo");
        proxy.cut();
        proxy.resume();
        assert!(heard(&mut old, 1).await.is_err());
    }

    #[tokio::test]
    async fn a_kafka_is_made_to_name_the_proxy() {
        let server = echo().await;
        let proxy = Proxy::before(&format!("kafka://{server}"));
        let mut client = TcpStream::connect(proxy.address()).await.expect("it accepts");
        let answer = |address| [b"before", &as_kafka_says(address)[..], b"between", &as_kafka_says(address)].concat();
        assert_eq!(echoed(&mut client, &answer(server)).await.expect("an echo"), answer(proxy.address()));
    }

    #[tokio::test]
    async fn only_host_and_port_of_a_url_are_replaced() {
        let proxy = Proxy::before("kafka://localhost:9,other:10");
        let address = proxy.address();
        assert_eq!(proxy.url("amqp://u:p@ss@host:5672/%2f?x=y"), format!("amqp://u:p@ss@{address}/%2f?x=y"));
        assert_eq!(proxy.url("redis://host:1"), format!("redis://{address}"));
        assert_eq!(proxy.url("kafka://a:1,b:2?acks=all"), format!("kafka://{address}?acks=all"));
    }
}
