//! DNS rebinding: a name resolves to another address a moment later.

use crate::support::{WebhookReceiver, settings};
use onceward_webhooks::{
    WebhookSecret,
    client::{AttemptResult, WebhookClient, WebhookMessage},
};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Resolves each lookup to the next of these address lists, and then always to the last.
struct SequenceResolver {
    address_lists: Vec<Vec<IpAddr>>,
    lookups: Arc<AtomicUsize>,
}

impl Resolve for SequenceResolver {
    fn resolve(&self, _: Name) -> Resolving {
        let number = self.lookups.fetch_add(1, Ordering::Relaxed);
        let addresses = self.address_lists[number.min(self.address_lists.len() - 1)].clone();
        Box::pin(async move { Ok(Box::new(addresses.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs) })
    }
}

/// Creates a client with a [`SequenceResolver`]. Returns it with the number of lookups.
fn client(address_lists: &[&[&str]]) -> (WebhookClient, Arc<AtomicUsize>) {
    onceward::install_crypto_provider();
    let lookups = Arc::new(AtomicUsize::new(0));
    let parse = |list: &&[&str]| list.iter().map(|ip| ip.parse().expect("an address")).collect();
    let address_lists = address_lists.iter().map(parse).collect();
    let resolver = Arc::new(SequenceResolver { address_lists, lookups: lookups.clone() });
    (WebhookClient::with_resolver(&settings(), resolver).expect("a client"), lookups)
}

async fn send(client: &WebhookClient, receiver: &WebhookReceiver) -> AttemptResult {
    let url = format!("http://hooks.example.com:{}/close", receiver.port);
    client.send(&url, &WebhookMessage { id: "1", body: "{}", secrets: &[WebhookSecret::generate()], trace: None }).await
}

#[tokio::test]
async fn a_name_that_changes_to_a_private_address_after_a_check_is_refused() {
    let receiver = WebhookReceiver::start().await;
    let inside = WebhookReceiver::start_at(&format!("127.0.0.2:{}", receiver.port)).await;
    let (client, lookups) = client(&[&["127.0.0.1"], &["127.0.0.2"]]);
    assert!(send(&client, &receiver).await.is_success());
    let refused = send(&client, &receiver).await;
    assert_eq!(refused.status, None);
    assert!(refused.error.is_some_and(|error| error.contains("nothing is sent there")));
    assert_eq!(lookups.load(Ordering::Relaxed), 2, "each connection resolves once and uses the checked address");
    assert_eq!((receiver.requests("close").len(), inside.requests("close").len()), (1, 0));
}

#[tokio::test]
async fn only_the_allowed_addresses_of_a_name_are_tried() {
    let receiver = WebhookReceiver::start().await;
    let inside = WebhookReceiver::start_at(&format!("127.0.0.2:{}", receiver.port)).await;
    let (client, _) = client(&[&["127.0.0.2", "10.0.0.1", "127.0.0.1", "::1"]]);
    assert!(send(&client, &receiver).await.is_success());
    assert_eq!((receiver.requests("close").len(), inside.requests("close").len()), (1, 0));
}
