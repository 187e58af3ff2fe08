//! Making the topics that are missing, and writing down where new queues begin.

use crate::{
    KafkaBroker, TOPIC_BYTES,
    admin::Admin,
    births::{self, Births},
    connection::{Held, Until, blocking, not_made},
    group::{Membership, reading},
};
use onceward_topology::{Exchange, Topology};
use onceward_transport::{BrokerError, Parcel, Verdict};
use rdkafka::{
    admin::{NewTopic, TopicReplication},
    consumer::BaseConsumer,
};
use std::collections::BTreeSet;

/// Unless the topology says otherwise.
const PARTITIONS: u16 = 8;
/// Kafka allows no more.
const NAME_BYTES_MAX: usize = 249;
/// Who reads where queues begin, apart from their own readers.
const READER: &str = "onceward";

impl KafkaBroker {
    pub(crate) async fn make_what_is_missing(&self) -> Result<Vec<String>, BrokerError> {
        let topology = self.topology.clone();
        let made = self.admin(move |admin| make_topics(admin, &topology)).await?;
        let births = self.births().await?;
        let (topology, new_topics) = (self.topology.clone(), made.clone());
        let born = self.admin(move |admin| new_queues(admin, &topology, &births, &new_topics)).await?;
        let (queues, records): (Vec<String>, Vec<Parcel>) = born.into_iter().unzip();
        for verdict in self.send_all(records).await? {
            if let Verdict::Refused(why) = verdict {
                return Err(BrokerError::Misconfigured(format!("a queue cannot be declared: {why}")));
            }
        }
        let topics = made.into_iter().map(|topic| format!("exchange {topic}"));
        Ok(topics.chain(queues.into_iter().map(|queue| format!("queue {queue}"))).collect())
    }

    /// Where all queues begin.
    pub(crate) async fn births(&self) -> Result<Births, BrokerError> {
        let (settings, open, limit) = (reading(&self.config, READER)?, self.open.clone(), self.asking_time());
        let read = move || {
            let consumer: BaseConsumer<Membership> =
                settings.create_with_context(Membership::default()).map_err(not_made)?;
            Births::read(&*Held::new(consumer, &open), Until::in_time(limit))
        };
        blocking("reading where queues begin", limit * 2, read).await
    }
}

/// Each queue with each exchange that it is bound to.
pub(crate) fn pairs(topology: &Topology) -> BTreeSet<(&str, &str)> {
    topology.bindings.iter().map(|binding| (binding.queue.as_str(), binding.exchange.as_str())).collect()
}

/// How many partitions an exchange is to have.
pub(crate) fn partitions(exchange: &Exchange) -> u16 {
    exchange.partitions.unwrap_or(PARTITIONS)
}

fn make_topics(admin: &Admin, topology: &Topology) -> Result<BTreeSet<String>, BrokerError> {
    if let Some(exchange) = topology.exchanges.iter().find(|exchange| !is_topic_name(&exchange.name)) {
        return Err(BrokerError::Misconfigured(format!(
            "the exchange {:?} cannot be a Kafka topic: use at most {NAME_BYTES_MAX} letters, digits, '.', '_' and '-'",
            exchange.name
        )));
    }
    let largest = TOPIC_BYTES.to_string();
    let mut made = BTreeSet::new();
    for exchange in &topology.exchanges {
        let topic = new_topic(admin, &exchange.name, partitions(exchange))
            .set("max.message.bytes", &largest)
            .set("cleanup.policy", "delete");
        if admin.partitions(&exchange.name)?.is_none() && admin.make(&topic)? {
            made.insert(exchange.name.clone());
        }
    }
    let queues = new_topic(admin, births::TOPIC, 1).set("cleanup.policy", "delete").set("retention.ms", "-1");
    if admin.partitions(births::TOPIC)?.is_none() {
        admin.make(&queues)?;
    }
    Ok(made)
}

fn new_topic<'a>(admin: &Admin, name: &'a str, partitions: u16) -> NewTopic<'a> {
    NewTopic::new(name, i32::from(partitions), TopicReplication::Fixed(admin.replication))
}

/// The queues whose beginning is not written down yet, each with its record.
fn new_queues(
    admin: &Admin,
    topology: &Topology,
    births: &Births,
    new_topics: &BTreeSet<String>,
) -> Result<Vec<(String, Parcel)>, BrokerError> {
    let mut born = Vec::new();
    for (queue, exchange) in pairs(topology) {
        let known = births.of(queue, exchange);
        let begins = if new_topics.contains(exchange) {
            Vec::new()
        } else if known.is_none() {
            let partitions = admin.partitions(exchange)?.unwrap_or_default().len();
            admin.bounds(exchange, partitions)?.into_iter().map(|(_, end)| end).collect()
        } else {
            continue;
        };
        if known != Some(&begins[..]) {
            born.push((format!("{queue} of exchange {exchange}"), births::record(queue, exchange, &begins)));
        }
    }
    Ok(born)
}

fn is_topic_name(name: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(plain) && name != "." && name != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_kafka_refuses_are_known() {
        for good in ["payments.events", "A-1_b", &"x".repeat(249)] {
            assert!(is_topic_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a b", "grüße", "a/b", &"x".repeat(250)] {
            assert!(!is_topic_name(bad), "{bad}");
        }
    }
}
