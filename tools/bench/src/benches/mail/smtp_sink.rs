//! An SMTP server on loopback that accepts and counts every mail, as fast as it can.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

const MAX_LINE_BYTES: usize = 10_000;

/// The server. It ends when this value is dropped.
pub(super) struct SmtpSink {
    pub port: u16,
    received: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl SmtpSink {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let received = Arc::new(AtomicU64::new(0));
        let counter = received.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, counter.clone()));
            }
        });
        Ok(Self { port, received, accepting })
    }

    /// Returns how many mails it has accepted.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for SmtpSink {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Answers one client until it leaves.
async fn converse(stream: TcpStream, received: Arc<AtomicU64>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let (mut line, mut is_in_data) = (Vec::new(), false);
    writer.write_all(b"220 sink\r\n").await.ok()?;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).await.ok()? == 0 || line.len() > MAX_LINE_BYTES {
            return None;
        }
        let answer: &[u8] = match (is_in_data, line.get(..4).map(<[u8]>::to_ascii_uppercase).as_deref()) {
            (true, _) if line == b".\r\n" => {
                is_in_data = false;
                let number = received.fetch_add(1, Ordering::Relaxed);
                writer.write_all(format!("250 2.0.0 queued as {number}\r\n").as_bytes()).await.ok()?;
                continue;
            }
            (true, _) => continue,
            (false, Some(b"EHLO")) => b"250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n",
            (false, Some(b"DATA")) => {
                is_in_data = true;
                b"354 go ahead\r\n"
            }
            (false, Some(b"QUIT")) => {
                let _ = writer.write_all(b"221 bye\r\n").await;
                return Some(());
            }
            _ => b"250 ok\r\n",
        };
        writer.write_all(answer).await.ok()?;
    }
}
