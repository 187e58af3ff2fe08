//! A continuous load of orders, and their responses.

use crate::support::{UpServer, http};
use onceward_testkit::{HttpResponse, eventually};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const CLIENTS: usize = 4;

#[derive(Default)]
struct OrderResponses {
    accepted: Mutex<Vec<String>>,
    refused: AtomicU64,
}

/// Clients that place orders one after the other. Every response must be 202, or 503 with `Retry-After`.
pub struct OrderLoad {
    responses: Arc<OrderResponses>,
    stop: CancellationToken,
    clients: JoinSet<()>,
}

impl OrderLoad {
    pub fn start(up: &UpServer) -> Self {
        let (responses, stop, mut clients) =
            (Arc::<OrderResponses>::default(), CancellationToken::new(), JoinSet::new());
        for client in 0..CLIENTS {
            let (url, token) = (format!("{}/api/orders", up.url), up.token.clone());
            clients.spawn(place_orders(client, url, token, responses.clone(), stop.clone()));
        }
        Self { responses, stop, clients }
    }

    /// Waits until another order was accepted.
    pub async fn wait_for_accepted(&self) {
        let before = self.accepted();
        eventually("orders are accepted", || async { (self.accepted() > before).then_some(()) }).await;
    }

    /// Waits until another order was refused with 503.
    pub async fn wait_for_refused(&self) {
        let before = self.responses.refused.load(Ordering::Relaxed);
        let refused = || self.responses.refused.load(Ordering::Relaxed);
        eventually("an order is refused", || async { (refused() > before).then_some(()) }).await;
    }

    /// Ends the load; returns the paths of the accepted orders.
    pub async fn stop(mut self) -> Vec<String> {
        self.stop.cancel();
        while let Some(client) = self.clients.join_next().await {
            client.expect("every response was 202 or 503");
        }
        std::mem::take(&mut *self.responses.accepted.lock())
    }

    fn accepted(&self) -> usize {
        self.responses.accepted.lock().len()
    }
}

async fn place_orders(
    client: usize,
    url: String,
    token: String,
    responses: Arc<OrderResponses>,
    stop: CancellationToken,
) {
    let http = http();
    for number in 0.. {
        if stop.is_cancelled() {
            return;
        }
        let order = serde_json::json!({"sku": format!("sku-{client}-{}", number / 100), "quantity": 1});
        let request = http.post(&url).bearer_auth(&token).header("idempotency-key", format!("load-{client}-{number}"));
        let response = HttpResponse::to(request.json(&order)).await;
        match response.status {
            202 => {
                let path = response.header("location").expect("a path").to_owned();
                responses.accepted.lock().push(path);
            }
            503 => {
                assert!(response.header("retry-after").is_some(), "{response:?}");
                responses.refused.fetch_add(1, Ordering::Relaxed);
            }
            _ => panic!("{}: {}", response.status, response.text),
        }
    }
}
