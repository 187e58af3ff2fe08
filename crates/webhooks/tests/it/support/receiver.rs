//! An HTTP server that writes down what it is sent and behaves as the path says.

use super::tls::TlsListener;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    serve::Listener,
};
use futures_util::stream;
use onceward_testkit::eventually;
use onceward_webhooks::{Secret, Signed, signature::NotVerified, verify};
use rustls::ServerConfig;
use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, sync::Semaphore};

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Got {
    pub path: String,
    pub id: String,
    pub timestamp: String,
    pub signature: String,
    pub body: Bytes,
}

impl Got {
    /// As a receiver would check it, at the time of sending.
    pub fn verify(&self, secret: &str) -> Result<(), NotVerified> {
        let secret: Secret = secret.parse().expect("a secret");
        let signed = Signed { id: &self.id, timestamp: &self.timestamp, signature: &self.signature };
        verify(&secret, &signed, &self.body, jiff::Timestamp::now())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

#[derive(Clone)]
struct Shared {
    got: Arc<Mutex<Vec<Got>>>,
    release: Arc<Semaphore>,
}

/// A running receiver.
pub struct Receiver {
    pub port: u16,
    shared: Shared,
}

impl Receiver {
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    pub async fn start_at(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let port = listener.local_addr().expect("a bound address").port();
        Self::serve(listener, port)
    }

    /// Speaks TLS, with this certificate.
    pub async fn start_with(certificate: ServerConfig) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = tcp.local_addr().expect("a bound address").port();
        Self::serve(TlsListener::new(tcp, certificate), port)
    }

    fn serve<L: Listener<Addr: Debug>>(listener: L, port: u16) -> Self {
        let shared = Shared { got: Arc::default(), release: Arc::new(Semaphore::new(0)) };
        let router = Router::new().fallback(take).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { port, shared }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// What came to this path, in the order in which it came.
    pub fn got(&self, path: &str) -> Vec<Got> {
        let got = self.shared.got.lock().expect("no panic while held");
        got.iter().filter(|got| got.path == path).cloned().collect()
    }

    /// The different ids that came to this path.
    pub fn ids(&self, path: &str) -> BTreeSet<String> {
        self.got(path).into_iter().map(|got| got.id).collect()
    }

    /// Waits until `count` requests came to this path.
    pub async fn wait(&self, path: &str, count: usize) -> Vec<Got> {
        eventually(&format!("{count} requests to {path}"), || async {
            let got = self.got(path);
            (got.len() >= count).then_some(got)
        })
        .await
    }

    /// Lets one request go on that is held.
    pub fn release_one(&self) {
        self.shared.release.add_permits(1);
    }
}

async fn take(State(shared): State<Shared>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(method, Method::POST);
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let path = uri.path().trim_start_matches('/').to_owned();
    let came_before = {
        let mut got = shared.got.lock().expect("no panic while held");
        let before = got.iter().filter(|got| got.path == path).count();
        got.push(Got {
            path: path.clone(),
            id: text("webhook-id"),
            timestamp: text("webhook-timestamp"),
            signature: text("webhook-signature"),
            body,
        });
        before
    };
    behave(&path, came_before, &shared, &headers).await
}

async fn behave(path: &str, came_before: usize, shared: &Shared, headers: &HeaderMap) -> Response {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match path.split('-').next().unwrap_or_default() {
        "error" => (StatusCode::INTERNAL_SERVER_ERROR, "the receiver is broken").into_response(),
        "hang" => std::future::pending().await,
        "redirect" => (StatusCode::FOUND, [(header::LOCATION, format!("http://{host}/trap"))]).into_response(),
        "gone" => StatusCode::GONE.into_response(),
        "later" => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "3600")]).into_response(),
        "endless" => {
            let chunk = || async { Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 4096])) };
            Body::from_stream(stream::unfold((), move |()| async move { Some((chunk().await, ())) })).into_response()
        }
        // Breaks twice, then is well.
        "flaky" if came_before < 2 => StatusCode::BAD_GATEWAY.into_response(),
        // The first request is held until the test lets it go, and then refused.
        "held" if came_before == 0 => {
            shared.release.acquire().await.expect("never closed").forget();
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        "close" => ([(header::CONNECTION, "close")], "fine").into_response(),
        _ => "fine".into_response(),
    }
}
