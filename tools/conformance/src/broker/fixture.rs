//! The fixture of a case: a topology with its own names on the harness's server.

use super::{BrokerHarness, queue_reader::ConformanceReader};
use bytes::Bytes;
use onceward_broker::{
    Address, Broker, BrokerConfig, BrokerError, Parcel, PublishOutcome, ReceiveOptions, prefixed, wire,
};
use onceward_testkit::{TcpProxy, eventually_within};
use onceward_topology::{Topic, Topology};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::timeout;
use uuid::Uuid;

/// The number of unaccepted messages that a reader may hold, where a case is not about that.
pub(super) const PREFETCH: usize = 100;

/// The publication time of every message of a case.
pub(super) const PUBLISHED_AT: &str = "2026-11-05T10:00:00Z";

/// A topology that only one case uses. Cases refer to its parts by their short names.
pub(super) struct BrokerFixture<'a> {
    harness: &'a dyn BrokerHarness,
    tag: String,
    pub(super) topology: Topology,
    pub(super) config: BrokerConfig,
    pub(super) broker: Arc<dyn Broker>,
}

impl<'a> BrokerFixture<'a> {
    /// Creates a topology and declares it.
    pub(super) async fn declared(harness: &'a dyn BrokerHarness, topology: Topology) -> Self {
        let fixture = Self::undeclared(harness, topology, BrokerConfig::new(Address::Url(harness.url())));
        fixture.declare().await;
        fixture
    }

    /// Creates a topology without declaring it.
    pub(super) fn undeclared(harness: &'a dyn BrokerHarness, topology: Topology, config: BrokerConfig) -> Self {
        let tag = format!("conformance-{}", Uuid::now_v7().simple());
        let topology = prefixed(&topology, &format!("{tag}."));
        let broker = harness.broker(config.clone(), topology.clone());
        Self { harness, tag, topology, config, broker }
    }

    /// Connects to the server through a proxy that the case can break, with short timeouts.
    pub(super) async fn behind_proxy(harness: &'a dyn BrokerHarness, topology: Topology) -> Option<(Self, TcpProxy)> {
        if without_network(harness) {
            return None;
        }
        let proxy = TcpProxy::in_front_of(&harness.url());
        let fixture = Self::undeclared(harness, topology, short_timeouts(Address::Url(proxy.url(&harness.url()))));
        fixture.declare().await;
        Some((fixture, proxy))
    }

    /// Creates another process with the same topology, not behind any proxy.
    pub(super) fn another_process(&self) -> Self {
        let config = BrokerConfig { address: Address::Url(self.harness.url()), ..self.config.clone() };
        let (tag, topology) = (self.tag.clone(), self.topology.clone());
        let broker = self.harness.broker(config.clone(), topology.clone());
        Self { harness: self.harness, tag, topology, config, broker }
    }

    /// Creates another process with a larger topology under the same names.
    pub(super) fn with_topology(&self, topology: Topology) -> Self {
        let topology = prefixed(&topology, &format!("{}.", self.tag));
        let broker = self.harness.broker(self.config.clone(), topology.clone());
        Self { harness: self.harness, tag: self.tag.clone(), topology, config: self.config.clone(), broker }
    }

    pub(super) async fn declare(&self) -> Vec<String> {
        self.within_timeout("declare", self.broker.declare()).await.expect("the topology can be declared")
    }

    /// Returns the name on the server.
    pub(super) fn name(&self, short: &str) -> String {
        format!("{}.{short}", self.tag)
    }

    pub(super) fn timeout(&self) -> Duration {
        self.harness.timeout()
    }

    /// Awaits `future`; panics if it takes longer than the harness's time limit.
    pub(super) async fn within_timeout<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        within(self.timeout(), what, future).await
    }

    /// Calls `poll` repeatedly until it returns a value; panics with `what` after the harness's time limit.
    pub(super) async fn eventually<T, Fut: Future<Output = Option<T>>>(
        &self,
        what: &str,
        poll: impl FnMut() -> Fut,
    ) -> T {
        eventually_within(self.timeout(), what, poll).await
    }

    /// Creates a message as the platform packs it. Messages with the same ordering key keep their order on every bus.
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
            (wire::PUBLISHED_AT, PUBLISHED_AT.to_owned()),
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

    /// Creates messages for "events" with one ordering key, whose bodies are these numbers.
    pub(super) fn numbers(&self, numbers: impl IntoIterator<Item = u32>) -> Vec<Parcel> {
        numbers.into_iter().map(|n| self.parcel("events", "a", "key", n.to_string())).collect()
    }

    pub(super) async fn publish(&self, parcels: Vec<Parcel>) -> Vec<PublishOutcome> {
        self.within_timeout("publish", self.broker.publish(parcels)).await.expect("the broker responds")
    }

    /// Publishes messages that the broker must accept.
    pub(super) async fn send(&self, parcels: Vec<Parcel>) {
        let count = parcels.len();
        assert_eq!(self.publish(parcels).await, vec![PublishOutcome::Accepted; count]);
    }

    /// Publishes until the broker responds, as the relay does. Some messages may arrive more than once.
    pub(super) async fn send_with_retries(&self, parcels: Vec<Parcel>) {
        let count = parcels.len();
        let verdicts = self.eventually("publish after an outage", || async {
            self.within_timeout("publish", self.broker.publish(parcels.clone())).await.ok()
        });
        assert_eq!(verdicts.await, vec![PublishOutcome::Accepted; count]);
    }

    /// Opens a queue for exclusive reading.
    pub(super) async fn reader(&self, queue: &str) -> ConformanceReader {
        self.reader_with(queue, true, PREFETCH).await
    }

    /// Waits until the queue is free: the broker may not have noticed yet that its last reader left.
    pub(super) async fn reader_with(&self, queue: &str, exclusive: bool, prefetch: usize) -> ConformanceReader {
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
    ) -> Result<ConformanceReader, BrokerError> {
        let reading = ReceiveOptions { queue: self.name(queue), exclusive, prefetch };
        let receiver = self.within_timeout("open", self.broker.open(reading)).await?;
        Ok(ConformanceReader::new(receiver, self.timeout()))
    }
}

pub(super) async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    timeout(limit, future).await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// Returns settings that detect an outage while a test waits.
pub(super) fn short_timeouts(address: Address) -> BrokerConfig {
    BrokerConfig {
        connect_timeout: Duration::from_secs(2),
        heartbeat: Duration::from_secs(2),
        publish_timeout: Duration::from_secs(3),
        ..BrokerConfig::new(address)
    }
}

/// Returns whether the server is not reached over a network, and reports that the case is left out.
pub(super) fn without_network(harness: &dyn BrokerHarness) -> bool {
    let without = !harness.uses_network();
    if without {
        left_out("its server is not reached over a network");
    }
    without
}

/// Reports that a case does not apply, bypassing the test runner, which hides the output of tests.
pub(crate) fn left_out(why: &str) {
    use std::io::Write;
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "LEFT OUT: {}: {why}", thread.name().unwrap_or("a case"));
}
