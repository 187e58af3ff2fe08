//! Listens for connections, and shuts down without dropping requests.
//!
//! We use our own accept loop instead of axum's: it limits the number of connections, the time a client may take to
//! send its headers, and the time a shutdown may take.

use crate::WebConfig;
use axum::{Router, extract::ConnectInfo};
use hyper::{
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};

/// The HTTP library's minimum buffer size.
const MIN_HEADER_BYTES: usize = 8 * 1024;
/// How long to wait when the system has no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` until `shutdown` resolves; then stops accepting, lets requests in flight finish within the grace
/// period, and aborts the rest. Requests carry the peer's address as `ConnectInfo`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    config: &WebConfig,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(config.header_read_timeout_ms))
        .max_buf_size(config.max_header_bytes.max(MIN_HEADER_BYTES));
    let slots = Arc::new(Semaphore::new(config.max_connections));
    let (stop, stopping) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            (stream, peer, slot) = accept(&listener, &slots) => {
                let service = TowerToHyperService::new(router.clone());
                connections.spawn(serve_connection(http.clone(), stream, peer, service, stopping.clone(), slot));
            }
        }
    }
    drop(listener);
    drop(stop);
    drain(connections, Duration::from_millis(config.shutdown_grace_ms)).await;
    Ok(())
}

/// Returns the next connection once a slot is free.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let slot = slots.clone().acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, slot),
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed; retrying");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(
    http: http1::Builder,
    stream: TcpStream,
    peer: SocketAddr,
    service: TowerToHyperService<Router>,
    mut stopping: watch::Receiver<()>,
    slot: OwnedSemaphorePermit,
) {
    // Responses are small and awaited; delaying them to fill a packet gains nothing.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        service.call(request)
    });
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let result = tokio::select! {
        result = connection.as_mut() => result,
        // The sender is dropped when the shutdown starts.
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "the connection ended early");
    }
    drop(slot);
}

async fn drain(mut connections: JoinSet<()>, grace: Duration) {
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "requests were still in progress after {grace:?}; aborting them and rolling their transactions back"
        );
        connections.shutdown().await;
    }
}
