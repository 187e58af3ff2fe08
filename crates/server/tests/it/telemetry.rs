//! Spans leave the process over OTLP.

use crate::support::{Scratch, Up, in_time, migrated_database};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";

/// The first line and the body of a request.
pub type Posted = (String, Vec<u8>);

/// Something that takes what a collector would take. Gives its address and what it gets.
pub async fn collector() -> (String, mpsc::UnboundedReceiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound address").to_string();
    let (sender, posted) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(take_requests(stream, sender.clone()));
        }
    });
    (address, posted)
}

/// Reads requests off one connection until it is closed.
async fn take_requests(stream: TcpStream, sender: mpsc::UnboundedSender<Posted>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut request_line, mut length) = (String::new(), 0);
        if stream.read_line(&mut request_line).await? == 0 {
            return Ok(());
        }
        let mut header = String::new();
        while stream.read_line(&mut header).await? > 2 {
            let (name, value) = header.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
            header.clear();
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        stream.write_all(ANSWER).await?;
        let _ = sender.send((request_line, body));
    }
}

/// Strings stand in protobuf as they are.
fn holds(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn spans_of_the_request_and_of_the_handler_are_exported() {
    let (scratch, database) = (Scratch::new(), migrated_database().await);
    let (address, mut posted) = collector().await;
    let endpoint = format!("http://{address}/v1/traces");
    let (url, otlp) = (database.url(), "ONCEWARD_TELEMETRY_OTLP_ENDPOINT");
    let mut up = Up::start(&scratch, &[("DATABASE_URL", &url), (otlp, &endpoint)]).await;
    up.place_order("traced").await;
    // What is still buffered is sent before the process ends.
    assert!(up.process.end_by("TERM").await.success());

    let (mut request, mut handle) = (false, false);
    while !(request && handle) {
        let (line, body) = in_time("spans arrive", posted.recv()).await.expect("the collector goes on");
        assert!(line.starts_with("POST /v1/traces "), "{line}");
        assert!(holds(&body, "service.name") && holds(&body, "onceward"));
        request |= holds(&body, "/api/orders");
        handle |= holds(&body, "reserve-stock") && holds(&body, "handle");
    }
}
