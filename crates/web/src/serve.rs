//! Listening, and stopping without cutting anyone off.
//!
//! Our own accept loop instead of axum's: it bounds the number of connections, the time a client may take to send its
//! headers, and the time a shutdown may take.

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

/// The HTTP library's lower bound for its buffer.
const MIN_HEADER_BYTES: usize = 8 * 1024;
/// How long to wait when the system has no more file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` until `shutdown` resolves; then stops accepting, lets requests under way finish within the grace
/// period, and ends what is left. Requests carry the address of their connection's other end, as `ConnectInfo`.
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
                connections.spawn(talk(http.clone(), stream, peer, service, stopping.clone(), slot));
            }
        }
    }
    drop(listener);
    drop(stop);
    finish(connections, Duration::from_millis(config.shutdown_grace_ms)).await;
    Ok(())
}

/// The next connection, once there is room for it.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let slot = slots.clone().acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, slot),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn talk(
    http: http1::Builder,
    stream: TcpStream,
    peer: SocketAddr,
    service: TowerToHyperService<Router>,
    mut stopping: watch::Receiver<()>,
    slot: OwnedSemaphorePermit,
) {
    // Answers are small and awaited; holding them back to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        service.call(request)
    });
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        // The sender is dropped when the shutdown begins.
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
    drop(slot);
}

async fn finish(mut connections: JoinSet<()>, grace: Duration) {
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "requests were still under way after {grace:?}; their transactions are rolled back"
        );
        connections.shutdown().await;
    }
}
