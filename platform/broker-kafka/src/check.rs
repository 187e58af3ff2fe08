//! Compares topics and queues with the topology.

use crate::{
    KafkaBroker, TOPIC_BYTES,
    admin::KafkaAdmin,
    declare::{partitions, queue_bindings},
    queue_starts::{self, QueueStarts},
};
use onceward_broker::{BrokerError, TopologyDifference};
use onceward_topology::{Exchange, Topology};

const DECLARE: &str = "run `onceward topology declare`";

impl KafkaBroker {
    pub(crate) async fn differences(&self) -> Result<Vec<TopologyDifference>, BrokerError> {
        let topology = self.topology.clone();
        let (mut differences, declared) = self.admin(move |admin| topics_differences(admin, &topology)).await?;
        let starts = if declared { self.queue_starts().await? } else { QueueStarts::default() };
        differences.extend(queue_differences(&self.topology, &starts));
        Ok(differences)
    }
}

/// Returns the differences of topics, and whether the topic with the start offsets of queues exists.
fn topics_differences(admin: &KafkaAdmin, topology: &Topology) -> Result<(Vec<TopologyDifference>, bool), BrokerError> {
    let mut differences = Vec::new();
    for exchange in &topology.exchanges {
        differences.extend(topic_differences(admin, exchange)?);
    }
    Ok((differences, admin.partitions(queue_starts::TOPIC)?.is_some()))
}

fn topic_differences(admin: &KafkaAdmin, exchange: &Exchange) -> Result<Vec<TopologyDifference>, BrokerError> {
    let wanted = usize::from(partitions(exchange));
    let differs = |declared: String, found: String, advice: &str| TopologyDifference {
        what: format!("exchange {}", exchange.name),
        declared,
        found,
        advice: advice.to_owned(),
    };
    let Some(replicas) = admin.partitions(&exchange.name)? else {
        return Ok(vec![differs(format!("a topic with {wanted} partitions"), "nothing".to_owned(), DECLARE)]);
    };
    let mut differences = Vec::new();
    if replicas.len() != wanted {
        let advice = if replicas.len() < wanted {
            "declare the current number in the topology, or add partitions while no messages are waiting: adding partitions \
             moves keys, and messages of a key from before and after are read in any order"
        } else {
            "declare the current number in the topology: partitions cannot be removed"
        };
        differences.push(differs(format!("{wanted} partitions"), replicas.len().to_string(), advice));
    }
    let settings = admin.topic_settings(&exchange.name)?;
    if let Some(bytes) =
        settings.get("max.message.bytes").filter(|bytes| bytes.parse().is_ok_and(|found: usize| found < TOPIC_BYTES))
    {
        let advice = "set it with kafka-configs; until then, larger messages are refused and become dead letters";
        differences.push(differs(format!("max.message.bytes of {TOPIC_BYTES}"), bytes.clone(), advice));
    }
    if let Some(policy) = settings.get("cleanup.policy").filter(|policy| *policy != "delete") {
        let advice = "set it with kafka-configs: a compacted topic loses messages that have the same key";
        differences.push(differs("cleanup.policy delete".to_owned(), policy.clone(), advice));
    }
    Ok(differences)
}

fn queue_differences(topology: &Topology, starts: &QueueStarts) -> Vec<TopologyDifference> {
    let undeclared =
        queue_bindings(topology).into_iter().filter(|(queue, exchange)| starts.of(queue, exchange).is_none());
    let difference = |(queue, exchange): (&str, &str)| TopologyDifference {
        what: format!("queue {queue}"),
        declared: format!("bound to exchange {exchange}"),
        found: "no recorded start offset".to_owned(),
        advice: DECLARE.to_owned(),
    };
    undeclared.map(difference).collect()
}
