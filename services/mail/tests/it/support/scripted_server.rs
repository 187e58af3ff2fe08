//! A server that misbehaves exactly as a test says.

use onceward_testkit::PATIENCE;
use std::{collections::VecDeque, net::SocketAddr};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

/// One act of a server on a connection.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Sends these bytes.
    Send(&'static str),
    /// Sends this line again and again, until the client has gone.
    SendForEver(&'static str),
    /// Reads a line that begins with this.
    Expect(&'static str),
    /// Reads up to and including the final dot.
    ReadBody,
    /// Reads once; everything up to the final dot must arrive with it.
    ReadBodyAtOnce,
    /// Closes the connection.
    Close,
    /// Neither reads nor sends until the test ends.
    Hang,
}

/// A listener on a loopback port; each connection runs the next script. After its script, a connection is closed.
pub struct ScriptedServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl ScriptedServer {
    pub async fn start(scripts: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let mut scripts = VecDeque::from(scripts);
        let task = tokio::spawn(async move {
            let mut running = Vec::new();
            while let Some(script) = scripts.pop_front() {
                let (stream, _) = listener.accept().await.expect("a connection");
                running.push(tokio::spawn(run(stream, script)));
            }
            drop(listener);
            for connection in running {
                connection.await.expect("the script is followed");
            }
        });
        Self { address, task }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Waits until all scripts have ended, each of them as expected.
    pub async fn finish(self) {
        let ended = timeout(PATIENCE, self.task).await.expect("all scripts end, and all connections came");
        ended.expect("the scripts are followed");
    }
}

async fn run(stream: TcpStream, script: Vec<Act>) {
    let mut stream = BufReader::with_capacity(1 << 20, stream);
    for act in script {
        match act {
            Act::Send(text) => stream.write_all(text.as_bytes()).await.expect("the client is there"),
            Act::SendForEver(line) => while stream.write_all(line.as_bytes()).await.is_ok() {},
            Act::Expect(beginning) => {
                let mut line = String::new();
                timeout(PATIENCE, stream.read_line(&mut line)).await.expect("a line in time").expect("a line");
                assert!(line.starts_with(beginning), "expected {beginning:?}, read {line:?}");
            }
            Act::ReadBody => {
                let mut line = String::new();
                while line != ".\r\n" {
                    line.clear();
                    let read = timeout(PATIENCE, stream.read_line(&mut line)).await.expect("a line in time");
                    assert!(read.expect("a line of the body") > 0, "the client has gone before the final dot");
                }
            }
            Act::ReadBodyAtOnce => {
                let mut body = vec![0; 1 << 20];
                let read = timeout(PATIENCE, stream.read(&mut body)).await.expect("a body in time").expect("a body");
                assert!(body[..read].ends_with(b"\r\n.\r\n"), "the final dot came in a write of its own");
            }
            Act::Close => return,
            Act::Hang => std::future::pending().await,
        }
    }
}
