//! Where a case stands: a topology under names of its own, on the lab's server.

use super::{Lab, reader::Reader};
use bytes::Bytes;
use onceward_testkit::Proxy;
use onceward_topology::{Topic, Topology};
use onceward_transport::{Address, Broker, BrokerConfig, BrokerError, Parcel, Reading, Verdict, prefixed, wire};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// How many messages a reader may have in hand, where a case is not about that.
pub(super) const PREFETCH: usize = 100;

const PAUSE: Duration = Duration::from_millis(20);

/// A topology that nobody else uses. Cases speak of its parts by their short names.
pub(super) struct Stand<'a> {
    lab: &'a dyn Lab,
    tag: String,
    pub(super) topology: Topology,
    pub(super) config: BrokerConfig,
    pub(super) broker: Arc<dyn Broker>,
}

impl<'a> Stand<'a> {
    /// A topology that is declared.
    pub(super) async fn declared(lab: &'a dyn Lab, topology: Topology) -> Self {
        let stand = Self::bare(lab, topology, BrokerConfig::new(Address::Url(lab.url())));
        stand.declare().await;
        stand
    }

    /// A topology that is not declared yet.
    pub(super) fn bare(lab: &'a dyn Lab, topology: Topology, config: BrokerConfig) -> Self {
        let tag = format!("conformance-{}", Uuid::now_v7().simple());
        let topology = prefixed(&topology, &format!("{tag}."));
        let broker = lab.broker(config.clone(), topology.clone());
        Self { lab, tag, topology, config, broker }
    }

    /// The server behind a network that the case can break, with settings that notice soon.
    pub(super) async fn behind_a_proxy(lab: &'a dyn Lab, topology: Topology) -> Option<(Self, Proxy)> {
        if !lab.can_be_proxied() {
            left_out("its server cannot be reached through a proxy");
            return None;
        }
        let proxy = Proxy::before(&lab.url());
        let stand = Self::bare(lab, topology, impatient(Address::Url(proxy.url(&lab.url()))));
        stand.declare().await;
        Some((stand, proxy))
    }

    /// Another process with the same topology, not behind any proxy.
    pub(super) fn elsewhere(&self) -> Self {
        let config = BrokerConfig { address: Address::Url(self.lab.url()), ..self.config.clone() };
        let (tag, topology) = (self.tag.clone(), self.topology.clone());
        let broker = self.lab.broker(config.clone(), topology.clone());
        Self { lab: self.lab, tag, topology, config, broker }
    }

    /// Another process that knows a larger topology under the same names.
    pub(super) fn grown(&self, topology: Topology) -> Self {
        let topology = prefixed(&topology, &format!("{}.", self.tag));
        let broker = self.lab.broker(self.config.clone(), topology.clone());
        Self { lab: self.lab, tag: self.tag.clone(), topology, config: self.config.clone(), broker }
    }

    pub(super) async fn declare(&self) -> Vec<String> {
        self.soon("declare", self.broker.declare()).await.expect("the topology can be declared")
    }

    /// The name on the server.
    pub(super) fn name(&self, short: &str) -> String {
        format!("{}.{short}", self.tag)
    }

    pub(super) fn patience(&self) -> Duration {
        self.lab.patience()
    }

    /// What must not take longer than patience.
    pub(super) async fn soon<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        soon(self.patience(), what, future).await
    }

    /// Asks again and again until there is an answer.
    pub(super) async fn eventually<T, Fut: Future<Output = Option<T>>>(
        &self,
        what: &str,
        mut ask: impl FnMut() -> Fut,
    ) -> T {
        let asking = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                sleep(PAUSE).await;
            }
        };
        self.soon(what, asking).await
    }

    /// A message as the platform packs it. Messages with the same ordering key keep their order on every bus.
    pub(super) fn parcel(
        &self,
        exchange: &str,
        routing_key: &str,
        ordering_key: &str,
        body: impl Into<Bytes>,
    ) -> Parcel {
        let topic = Topic::new(self.name(exchange), routing_key);
        let expected = self.topology.route(&topic.exchange, routing_key).is_ok_and(|queues| !queues.is_empty());
        let headers = [
            (wire::TOPIC, topic.to_string()),
            (wire::ORDERING_KEY, ordering_key.to_owned()),
            (wire::PUBLISHED_AT, "2026-11-05T10:00:00Z".to_owned()),
        ];
        Parcel {
            id: Uuid::now_v7(),
            topic: topic.into(),
            ordering_key: Some(ordering_key.to_owned()),
            priority: 0,
            headers: headers.into_iter().collect(),
            body: body.into(),
            expected,
        }
    }

    /// Messages for "events" with one ordering key, whose bodies are these numbers.
    pub(super) fn numbers(&self, numbers: impl IntoIterator<Item = u32>) -> Vec<Parcel> {
        numbers.into_iter().map(|n| self.parcel("events", "a", "key", n.to_string())).collect()
    }

    pub(super) async fn publish(&self, parcels: Vec<Parcel>) -> Vec<Verdict> {
        self.soon("publish", self.broker.publish(parcels)).await.expect("the broker answers")
    }

    /// Publishes what the broker has no reason to refuse.
    pub(super) async fn send(&self, parcels: Vec<Parcel>) {
        let count = parcels.len();
        assert_eq!(self.publish(parcels).await, vec![Verdict::Accepted; count]);
    }

    /// Publishes until the broker answers, as the relay does. Some may arrive more than once.
    pub(super) async fn send_in_spite(&self, parcels: Vec<Parcel>) {
        let count = parcels.len();
        let verdicts = self.eventually("publish after an outage", || async {
            self.soon("publish", self.broker.publish(parcels.clone())).await.ok()
        });
        assert_eq!(verdicts.await, vec![Verdict::Accepted; count]);
    }

    /// Reads a queue alone.
    pub(super) async fn reader(&self, queue: &str) -> Reader {
        self.reader_with(queue, true, PREFETCH).await
    }

    /// Waits until the queue is free: one who left it a moment ago may still be known to the broker.
    pub(super) async fn reader_with(&self, queue: &str, exclusive: bool, prefetch: usize) -> Reader {
        self.eventually("open a queue", || async {
            match self.try_reader(queue, exclusive, prefetch).await {
                Ok(reader) => Some(reader),
                Err(BrokerError::Taken(_) | BrokerError::Unavailable(_)) => None,
                Err(error) => panic!("the queue cannot be opened: {error}"),
            }
        })
        .await
    }

    pub(super) async fn try_reader(
        &self,
        queue: &str,
        exclusive: bool,
        prefetch: usize,
    ) -> Result<Reader, BrokerError> {
        let reading = Reading { queue: self.name(queue), exclusive, prefetch };
        let receiver = self.soon("open", self.broker.open(reading)).await?;
        Ok(Reader::new(receiver, self.patience()))
    }
}

pub(super) async fn soon<T>(patience: Duration, what: &str, future: impl Future<Output = T>) -> T {
    timeout(patience, future).await.unwrap_or_else(|_| panic!("{what}: not within {patience:?}"))
}

/// Settings that notice an outage while a test waits.
pub(super) fn impatient(address: Address) -> BrokerConfig {
    BrokerConfig {
        address,
        connect_timeout: Duration::from_secs(2),
        heartbeat: Duration::from_secs(2),
        publish_timeout: Duration::from_secs(3),
    }
}

/// Says that a case does not apply, past the test runner, which hides what tests print.
pub(crate) fn left_out(why: &str) {
    use std::io::Write;
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "LEFT OUT: {}: {why}", thread.name().unwrap_or("a case"));
}
