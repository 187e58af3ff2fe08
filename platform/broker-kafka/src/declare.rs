//! Creates missing topics and records where new queues start.

use crate::{
    KafkaBroker, TOPIC_BYTES,
    admin::KafkaAdmin,
    connection::{Deadline, ManagedClient, blocking, creation_error},
    group::{GroupContext, consumer_settings},
    queue_starts::{self, QueueStarts},
};
use onceward_broker::{BrokerError, Parcel, PublishOutcome};
use onceward_topology::{Exchange, Topology};
use rdkafka::{
    admin::{NewTopic, TopicReplication},
    consumer::BaseConsumer,
};
use std::collections::BTreeSet;

/// Used unless the topology declares another number.
const DEFAULT_PARTITIONS: u16 = 8;
/// Kafka's limit for topic names.
const NAME_BYTES_MAX: usize = 249;
/// The group of consumers that only read start offsets.
pub(crate) const READER_GROUP: &str = "onceward";

impl KafkaBroker {
    pub(crate) async fn create_missing(&self) -> Result<Vec<String>, BrokerError> {
        let topology = self.topology.clone();
        let created = self.admin(move |admin| create_topics(admin, &topology)).await?;
        let starts = self.queue_starts().await?;
        let (topology, new_topics) = (self.topology.clone(), created.clone());
        let new_queues = self.admin(move |admin| new_queues(admin, &topology, &starts, &new_topics)).await?;
        let (queues, records): (Vec<String>, Vec<Parcel>) = new_queues.into_iter().unzip();
        for verdict in self.publish_all(records).await? {
            if let PublishOutcome::Refused(why) = verdict {
                return Err(BrokerError::Misconfigured(format!("cannot declare a queue: {why}")));
            }
        }
        let topics = created.into_iter().map(|topic| format!("exchange {topic}"));
        Ok(topics.chain(queues.into_iter().map(|queue| format!("queue {queue}"))).collect())
    }

    /// Reads the start offsets of all queues.
    pub(crate) async fn queue_starts(&self) -> Result<QueueStarts, BrokerError> {
        let (settings, open_clients, limit) =
            (consumer_settings(&self.config, READER_GROUP)?, self.open_clients.clone(), self.request_timeout());
        let read = move || {
            let consumer: BaseConsumer<GroupContext> =
                settings.create_with_context(GroupContext::default()).map_err(creation_error)?;
            QueueStarts::read(&*ManagedClient::new(consumer, &open_clients), Deadline::after(limit))
        };
        blocking("reading the start offsets of queues", limit * 2, read).await
    }
}

/// Returns each queue with each exchange that it is bound to.
pub(crate) fn queue_bindings(topology: &Topology) -> BTreeSet<(&str, &str)> {
    topology.bindings.iter().map(|binding| (binding.queue.as_str(), binding.exchange.as_str())).collect()
}

/// Returns the declared number of partitions of an exchange.
pub(crate) fn partitions(exchange: &Exchange) -> u16 {
    exchange.partitions.unwrap_or(DEFAULT_PARTITIONS)
}

fn create_topics(admin: &KafkaAdmin, topology: &Topology) -> Result<BTreeSet<String>, BrokerError> {
    if let Some(exchange) = topology.exchanges.iter().find(|exchange| !is_topic_name(&exchange.name)) {
        return Err(BrokerError::Misconfigured(format!(
            "the exchange {:?} cannot be a Kafka topic: use at most {NAME_BYTES_MAX} letters, digits, '.', '_' and '-'",
            exchange.name
        )));
    }
    let largest = TOPIC_BYTES.to_string();
    let mut created = BTreeSet::new();
    for exchange in &topology.exchanges {
        let topic = new_topic(admin, &exchange.name, partitions(exchange))
            .set("max.message.bytes", &largest)
            .set("cleanup.policy", "delete");
        if admin.partitions(&exchange.name)?.is_none() && admin.create_topic(&topic)? {
            created.insert(exchange.name.clone());
        }
    }
    let queues = new_topic(admin, queue_starts::TOPIC, 1).set("cleanup.policy", "delete").set("retention.ms", "-1");
    if admin.partitions(queue_starts::TOPIC)?.is_none() {
        admin.create_topic(&queues)?;
    }
    Ok(created)
}

fn new_topic<'a>(admin: &KafkaAdmin, name: &'a str, partitions: u16) -> NewTopic<'a> {
    NewTopic::new(name, i32::from(partitions), TopicReplication::Fixed(admin.replication))
}

/// Returns the queues whose start is not recorded yet, each with its record.
fn new_queues(
    admin: &KafkaAdmin,
    topology: &Topology,
    starts: &QueueStarts,
    new_topics: &BTreeSet<String>,
) -> Result<Vec<(String, Parcel)>, BrokerError> {
    let mut new_queues = Vec::new();
    for (queue, exchange) in queue_bindings(topology) {
        let declared = starts.of(queue, exchange);
        let offsets = if new_topics.contains(exchange) {
            Vec::new()
        } else if declared.is_none() {
            let partitions = admin.partitions(exchange)?.unwrap_or_default().len();
            admin.bounds(exchange, partitions)?.into_iter().map(|(_, end)| end).collect()
        } else {
            continue;
        };
        if declared != Some(&offsets[..]) {
            new_queues
                .push((format!("{queue} of exchange {exchange}"), queue_starts::record(queue, exchange, &offsets)));
        }
    }
    Ok(new_queues)
}

fn is_topic_name(name: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(plain) && name != "." && name != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_topic_names_are_detected() {
        for good in ["payments.events", "A-1_b", &"x".repeat(249)] {
            assert!(is_topic_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a b", "grüße", "a/b", &"x".repeat(250)] {
            assert!(!is_topic_name(bad), "{bad}");
        }
    }
}
