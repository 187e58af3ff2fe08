//! A name that means something else a moment later.

use crate::support::{Receiver, settings};
use onceward_webhooks::{
    Secret,
    client::{Answer, Client, Message},
};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Answers each question with the next of these addresses, and then with the last.
struct Changing {
    answers: Vec<Vec<IpAddr>>,
    asked: Arc<AtomicUsize>,
}

impl Resolve for Changing {
    fn resolve(&self, _: Name) -> Resolving {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let found = self.answers[asked.min(self.answers.len() - 1)].clone();
        Box::pin(async move { Ok(Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs) })
    }
}

fn client(answers: &[&[&str]]) -> (Client, Arc<AtomicUsize>) {
    onceward::cli::install_crypto();
    let asked = Arc::new(AtomicUsize::new(0));
    let answers = answers.iter().map(|all| all.iter().map(|ip| ip.parse().expect("an address")).collect()).collect();
    let resolver = Arc::new(Changing { answers, asked: asked.clone() });
    (Client::with_resolver(&settings(), resolver).expect("a client"), asked)
}

async fn send(client: &Client, receiver: &Receiver) -> Answer {
    let url = format!("http://hooks.example.com:{}/close", receiver.port);
    client.send(&url, &Message { id: "1", body: "{}", secrets: &[Secret::generate()] }).await
}

#[tokio::test]
async fn a_name_that_turns_inward_after_it_was_checked_leads_nowhere() {
    let receiver = Receiver::start().await;
    let inside = Receiver::start_at(&format!("127.0.0.2:{}", receiver.port)).await;
    let (client, asked) = client(&[&["127.0.0.1"], &["127.0.0.2"]]);
    assert!(send(&client, &receiver).await.is_success());
    let refused = send(&client, &receiver).await;
    assert_eq!(refused.status, None);
    assert!(refused.error.is_some_and(|error| error.contains("nothing is sent there")));
    assert_eq!(asked.load(Ordering::Relaxed), 2, "each connection asks once, and connects to what was checked");
    assert_eq!((receiver.got("close").len(), inside.got("close").len()), (1, 0));
}

#[tokio::test]
async fn of_several_addresses_only_those_that_are_allowed_are_tried() {
    let receiver = Receiver::start().await;
    let inside = Receiver::start_at(&format!("127.0.0.2:{}", receiver.port)).await;
    let (client, _) = client(&[&["127.0.0.2", "10.0.0.1", "127.0.0.1", "::1"]]);
    assert!(send(&client, &receiver).await.is_success());
    assert_eq!((receiver.got("close").len(), inside.got("close").len()), (1, 0));
}
