//! A real listener: slow clients, and a shutdown that drops no requests.

use crate::support::TestApp;
use onceward_web::{WebConfig, serve};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

async fn start(app: &TestApp, config: WebConfig) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let router = app.router.clone();
    let server = tokio::spawn(async move {
        let shutdown = async {
            let _ = stopped.await;
        };
        serve(listener, router, &config, shutdown).await.unwrap();
    });
    (address, stop, server)
}

async fn send_note(app: &TestApp, address: SocketAddr, key: &str) -> TcpStream {
    let body = r#"{"text":"hello"}"#;
    let head = format!(
        "POST /api/notes HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
        app.token(),
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_request_in_progress_finishes_before_the_server_stops() {
    let app = TestApp::new();
    let (address, stop, server) = start(&app, WebConfig::default()).await;
    app.pause.arm();
    let mut stream = send_note(&app, address, "k").await;
    app.pause.entered().await;
    stop.send(()).unwrap();
    app.pause.release();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 201"), "{response}");
    server.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
    assert_eq!(app.notes().await, 1);
}

#[tokio::test]
async fn a_request_that_outlasts_the_grace_period_is_rolled_back() {
    let app = TestApp::new();
    let config = WebConfig { shutdown_grace_ms: 50, ..WebConfig::default() };
    let (address, stop, server) = start(&app, config).await;
    app.pause.arm();
    let mut stream = send_note(&app, address, "k").await;
    app.pause.entered().await;
    stop.send(()).unwrap();
    server.await.unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    assert!(response.is_empty());
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_headers_is_disconnected() {
    let app = TestApp::new();
    let config = WebConfig { header_read_timeout_ms: 50, ..WebConfig::default() };
    let (address, stop, server) = start(&app, config).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: te").await.unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    assert!(!response.starts_with(b"HTTP/1.1 200"));
    stop.send(()).unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn a_problem_document_has_the_correct_content_length() {
    let app = TestApp::new();
    let (address, stop, server) = start(&app, WebConfig::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /api/notes HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 401"), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    let problem: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(problem["instance"], "/api/notes");
    stop.send(()).unwrap();
    server.await.unwrap();
}
