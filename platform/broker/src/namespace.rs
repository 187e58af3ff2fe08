//! Several installations on one broker: each puts its own prefix before every name.

use crate::{
    Backlog, Broker, BrokerError, Capabilities, Parcel, PublishOutcome, ReceiveOptions, Receiver, TopologyDifference,
};
use async_trait::async_trait;
use onceward_topology::{Topic, Topology};
use std::sync::Arc;

/// A broker on which all names begin with `prefix`, transparently to its callers.
pub struct NamespacedBroker {
    broker: Arc<dyn Broker>,
    prefix: String,
}

/// Returns the topology with `prefix` before the name of every exchange and queue.
pub fn prefixed(topology: &Topology, prefix: &str) -> Topology {
    let mut topology = topology.clone();
    for exchange in &mut topology.exchanges {
        exchange.name.insert_str(0, prefix);
    }
    for queue in &mut topology.queues {
        queue.name.insert_str(0, prefix);
        if let Some(letter) = &mut queue.dead_letter {
            letter.exchange.insert_str(0, prefix);
        }
    }
    for binding in &mut topology.bindings {
        binding.exchange.insert_str(0, prefix);
        binding.queue.insert_str(0, prefix);
    }
    topology
}

impl NamespacedBroker {
    /// Wraps `broker`, which must have been created for the [`prefixed`] topology.
    pub fn new(broker: Arc<dyn Broker>, prefix: String) -> Self {
        Self { broker, prefix }
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

#[async_trait]
impl Broker for NamespacedBroker {
    fn name(&self) -> &'static str {
        self.broker.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.broker.capabilities()
    }

    async fn declare(&self) -> Result<Vec<String>, BrokerError> {
        self.broker.declare().await
    }

    async fn check(&self) -> Result<Vec<TopologyDifference>, BrokerError> {
        self.broker.check().await
    }

    async fn unchecked(&self) -> Result<Vec<String>, BrokerError> {
        self.broker.unchecked().await
    }

    async fn publish(&self, mut parcels: Vec<Parcel>) -> Result<Vec<PublishOutcome>, BrokerError> {
        for parcel in &mut parcels {
            parcel.topic = Topic::new(self.name(&parcel.topic.exchange), &parcel.topic.routing_key).into();
        }
        self.broker.publish(parcels).await
    }

    async fn open(&self, reading: ReceiveOptions) -> Result<Box<dyn Receiver>, BrokerError> {
        self.broker.open(ReceiveOptions { queue: self.name(&reading.queue), ..reading }).await
    }

    async fn backlog(&self, queue: &str) -> Result<Backlog, BrokerError> {
        self.broker.backlog(&self.name(queue)).await
    }

    async fn backlogs(&self, queues: &[String]) -> Result<Vec<Backlog>, BrokerError> {
        let queues: Vec<String> = queues.iter().map(|queue| self.name(queue)).collect();
        self.broker.backlogs(&queues).await
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.broker.ping().await
    }

    async fn advise(&self) -> Result<Vec<String>, BrokerError> {
        self.broker.advise().await
    }

    async fn close(&self) {
        self.broker.close().await;
    }
}
