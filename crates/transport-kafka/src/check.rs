//! Where Kafka differs from the topology.

use crate::{
    KafkaBroker, TOPIC_BYTES,
    admin::Admin,
    births::{self, Births},
    declare::{pairs, partitions},
};
use onceward_topology::{Exchange, Topology};
use onceward_transport::{BrokerError, Difference};

const DECLARE: &str = "run `onceward topology declare`";

impl KafkaBroker {
    pub(crate) async fn differences(&self) -> Result<Vec<Difference>, BrokerError> {
        let topology = self.topology.clone();
        let (mut differences, declared) = self.admin(move |admin| of_topics(admin, &topology)).await?;
        let births = if declared { self.births().await? } else { Births::default() };
        differences.extend(of_queues(&self.topology, &births));
        Ok(differences)
    }
}

/// The differences of topics, and whether there is one with the beginnings of queues.
fn of_topics(admin: &Admin, topology: &Topology) -> Result<(Vec<Difference>, bool), BrokerError> {
    let mut differences = Vec::new();
    for exchange in &topology.exchanges {
        differences.extend(of_topic(admin, exchange)?);
    }
    Ok((differences, admin.partitions(births::TOPIC)?.is_some()))
}

fn of_topic(admin: &Admin, exchange: &Exchange) -> Result<Vec<Difference>, BrokerError> {
    let wanted = usize::from(partitions(exchange));
    let differs = |declared: String, found: String, advice: &str| Difference {
        what: format!("exchange {}", exchange.name),
        declared,
        found,
        advice: advice.to_owned(),
    };
    let Some(copies) = admin.partitions(&exchange.name)? else {
        return Ok(vec![differs(format!("a topic with {wanted} partitions"), "nothing".to_owned(), DECLARE)]);
    };
    let mut differences = Vec::new();
    if copies.len() != wanted {
        let advice = if copies.len() < wanted {
            "say in the topology how many there are, or add the others while nothing is waiting: adding partitions moves \
             keys, and what is published of a key before and after is read without order"
        } else {
            "say in the topology how many there are: partitions cannot be taken away"
        };
        differences.push(differs(format!("{wanted} partitions"), copies.len().to_string(), advice));
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

fn of_queues(topology: &Topology, births: &Births) -> Vec<Difference> {
    let unborn = pairs(topology).into_iter().filter(|(queue, exchange)| births.of(queue, exchange).is_none());
    let difference = |(queue, exchange): (&str, &str)| Difference {
        what: format!("queue {queue}"),
        declared: format!("bound to exchange {exchange}"),
        found: "nothing that says where it begins".to_owned(),
        advice: DECLARE.to_owned(),
    };
    unborn.map(difference).collect()
}
