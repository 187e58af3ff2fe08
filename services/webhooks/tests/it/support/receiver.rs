//! An HTTP server that records the requests it receives and behaves according to the path.

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
use onceward_webhooks::{SignatureHeaders, WebhookSecret, signature::VerificationError, verify};
use parking_lot::Mutex;
use rustls::ServerConfig;
use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};
use tokio::{net::TcpListener, sync::Semaphore};

/// A request as received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub path: String,
    pub id: String,
    pub timestamp: String,
    pub signature: String,
    pub traceparent: String,
    pub tracestate: String,
    pub body: Bytes,
}

impl ReceivedRequest {
    /// Verifies the signature as a receiver would, at the current time.
    pub fn verify(&self, secret: &str) -> Result<(), VerificationError> {
        let secret: WebhookSecret = secret.parse().expect("a secret");
        let headers = SignatureHeaders { id: &self.id, timestamp: &self.timestamp, signature: &self.signature };
        verify(&secret, &headers, &self.body, jiff::Timestamp::now())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

#[derive(Clone)]
struct ReceiverState {
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// Permits for held requests to continue.
    release: Arc<Semaphore>,
    /// Whether paths that begin with `switched` succeed.
    is_up: Arc<AtomicBool>,
}

/// A running receiver.
pub struct WebhookReceiver {
    pub port: u16,
    state: ReceiverState,
}

impl WebhookReceiver {
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    pub async fn start_at(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let port = listener.local_addr().expect("a bound address").port();
        Self::serve(listener, port)
    }

    /// Starts a receiver that uses TLS with this certificate.
    pub async fn start_with_tls(certificate: ServerConfig) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = tcp.local_addr().expect("a bound address").port();
        Self::serve(TlsListener::new(tcp, certificate), port)
    }

    fn serve<L: Listener<Addr: Debug>>(listener: L, port: u16) -> Self {
        let state =
            ReceiverState { requests: Arc::default(), release: Arc::new(Semaphore::new(0)), is_up: Arc::default() };
        let router = Router::new().fallback(receive).with_state(state.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { port, state }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// Returns the requests to this path, in the order of arrival.
    pub fn requests(&self, path: &str) -> Vec<ReceivedRequest> {
        self.state.requests.lock().iter().filter(|request| request.path == path).cloned().collect()
    }

    /// Returns the distinct ids received on this path.
    pub fn ids(&self, path: &str) -> BTreeSet<String> {
        self.requests(path).into_iter().map(|request| request.id).collect()
    }

    /// Waits until `count` requests have arrived on this path.
    pub async fn wait_for(&self, path: &str, count: usize) -> Vec<ReceivedRequest> {
        eventually(&format!("{count} requests to {path}"), || async {
            let requests = self.requests(path);
            (requests.len() >= count).then_some(requests)
        })
        .await
    }

    /// Lets requests to paths that begin with `switched` succeed from now on.
    pub fn switch_on(&self) {
        self.state.is_up.store(true, SeqCst);
    }

    /// Lets one held request continue.
    pub fn release_one(&self) {
        self.state.release.add_permits(1);
    }
}

async fn receive(
    State(state): State<ReceiverState>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    assert_eq!(method, Method::POST);
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let path = uri.path().trim_start_matches('/').to_owned();
    let earlier = {
        let mut requests = state.requests.lock();
        let earlier = requests.iter().filter(|request| request.path == path).count();
        requests.push(ReceivedRequest {
            path: path.clone(),
            id: text("webhook-id"),
            timestamp: text("webhook-timestamp"),
            signature: text("webhook-signature"),
            traceparent: text("traceparent"),
            tracestate: text("tracestate"),
            body,
        });
        earlier
    };
    respond(&path, earlier, &state, &headers).await
}

/// Responds according to the path. `earlier` is the number of earlier requests to it.
async fn respond(path: &str, earlier: usize, state: &ReceiverState, headers: &HeaderMap) -> Response {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match path.split('-').next().unwrap_or_default() {
        "error" => (StatusCode::INTERNAL_SERVER_ERROR, "the receiver is broken").into_response(),
        "switched" if !state.is_up.load(SeqCst) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "hang" => std::future::pending().await,
        "redirect" => (StatusCode::FOUND, [(header::LOCATION, format!("http://{host}/trap"))]).into_response(),
        "gone" => StatusCode::GONE.into_response(),
        "later" => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "3600")]).into_response(),
        "endless" => {
            let chunk = || async { Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 4096])) };
            Body::from_stream(stream::unfold((), move |()| async move { Some((chunk().await, ())) })).into_response()
        }
        // Fails twice, then succeeds.
        "flaky" if earlier < 2 => StatusCode::BAD_GATEWAY.into_response(),
        // The first request is held until the test releases it, and then fails.
        "held" if earlier == 0 => {
            state.release.acquire().await.expect("the semaphore is never closed").forget();
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        "close" => ([(header::CONNECTION, "close")], "fine").into_response(),
        _ => "fine".into_response(),
    }
}
