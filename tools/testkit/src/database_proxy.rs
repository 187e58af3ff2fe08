//! A proxy in front of a database that delays and counts requests, or imitates a pooler with one session.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
    task::JoinHandle,
};
use tokio_postgres::config::Host;

const CHUNK_BYTES: usize = 16 * 1024;

/// Forwards connections to a database. Dropping it closes them.
pub struct DatabaseProxy {
    url: String,
    upstream: Upstream,
    accepting: JoinHandle<()>,
}

#[derive(Clone)]
struct Upstream {
    target: Target,
    delay: Duration,
    requests: Arc<AtomicU64>,
    /// The connection that has the only session, for a proxy that imitates a pooler.
    holder: Option<watch::Sender<Option<u64>>>,
}

#[derive(Clone)]
enum Target {
    Unix(PathBuf),
    Tcp(String, u16),
}

impl DatabaseProxy {
    /// Forwards to the database at `url` and delays each request by `delay`.
    pub async fn with_delay(url: &str, delay: Duration) -> Self {
        Self::start(url, delay, None).await
    }

    /// Forwards to the database at `url` like a pooler with one session left: while one connection has an open
    /// transaction, no other is served.
    pub async fn with_one_session(url: &str) -> Self {
        Self::start(url, Duration::ZERO, Some(watch::channel(None).0)).await
    }

    async fn start(url: &str, delay: Duration, holder: Option<watch::Sender<Option<u64>>>) -> Self {
        let config: tokio_postgres::Config = url.parse().expect("a PostgreSQL URL");
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let target = match config.get_hosts().first() {
            Some(Host::Unix(folder)) => Target::Unix(folder.join(format!(".s.PGSQL.{port}"))),
            Some(Host::Tcp(host)) => Target::Tcp(host.clone(), port),
            None => panic!("{url} names no host"),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = url_at(&config, listener.local_addr().expect("a bound address"));
        let upstream = Upstream { target, delay, requests: Arc::default(), holder };
        Self { url, upstream: upstream.clone(), accepting: tokio::spawn(accept(listener, upstream)) }
    }

    /// Returns the URL of the database through this proxy.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns the number of round trips to the database so far.
    pub fn requests(&self) -> u64 {
        self.upstream.requests.load(Ordering::SeqCst)
    }
}

impl Drop for DatabaseProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn url_at(config: &tokio_postgres::Config, address: SocketAddr) -> String {
    let user = config.get_user().unwrap_or("onceward");
    let password = config.get_password().map(|password| format!(":{}", String::from_utf8_lossy(password)));
    let database = config.get_dbname().unwrap_or("postgres");
    format!("postgres://{user}{}@{address}/{database}", password.unwrap_or_default())
}

async fn accept(listener: TcpListener, upstream: Upstream) {
    let mut connections = tokio::task::JoinSet::new();
    for number in 0.. {
        let Ok((client, _)) = listener.accept().await else { return };
        connections.spawn(connection(client, upstream.clone(), number));
    }
}

async fn connection(client: TcpStream, upstream: Upstream, number: u64) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    match &upstream.target {
        Target::Unix(path) => {
            let (from, to) = UnixStream::connect(path).await?.into_split();
            forward(client, from, to, &upstream, number).await
        }
        Target::Tcp(host, port) => {
            let (from, to) = TcpStream::connect((host.as_str(), *port)).await?.into_split();
            forward(client, from, to, &upstream, number).await
        }
    }
}

async fn forward(
    client: TcpStream,
    mut from_server: impl AsyncRead + Unpin,
    mut to_server: impl AsyncWrite + Unpin,
    upstream: &Upstream,
    number: u64,
) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let requests = async {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = from_client.read(&mut chunk).await?;
            if read == 0 {
                upstream.release_session(number);
                return to_server.shutdown().await;
            }
            upstream.requests.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(upstream.delay).await;
            upstream.wait_for_session(number, &chunk[..read]).await;
            to_server.write_all(&chunk[..read]).await?;
        }
    };
    let responses = tokio::io::copy(&mut from_server, &mut to_client);
    tokio::try_join!(requests, responses).map(drop)
}

impl Upstream {
    /// Waits for the only session, if sessions are limited. An open transaction keeps it.
    async fn wait_for_session(&self, number: u64, request: &[u8]) {
        let Some(holder) = &self.holder else { return };
        let contains = |word: &[u8]| request.windows(word.len()).any(|window| window == word);
        let _ = holder.subscribe().wait_for(|holder| holder.is_none_or(|holder| holder == number)).await;
        if contains(b"BEGIN") {
            holder.send_replace(Some(number));
        } else if contains(b"ROLLBACK") || contains(b"COMMIT") {
            self.release_session(number);
        }
    }

    fn release_session(&self, number: u64) {
        if let Some(holder) = &self.holder {
            holder.send_if_modified(|holder| holder.take_if(|holder| *holder == number).is_some());
        }
    }
}
