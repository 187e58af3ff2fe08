//! Finds bindings that are missing on the broker, and bindings that the topology does not declare.

use crate::management::{BindingsResponse, ListedBinding, ManagementApi};
use onceward_broker::{BrokerConfig, BrokerError, TopologyDifference};
use onceward_topology::{Binding, Topology};

/// Compares the bindings. The inner `Err` is the reason why they cannot be compared, and what to do.
pub(crate) async fn compare(
    config: &BrokerConfig,
    topology: &Topology,
) -> Result<Result<Vec<TopologyDifference>, String>, BrokerError> {
    let management = ManagementApi::new(config)?;
    let mut listed = Vec::new();
    for exchange in &topology.exchanges {
        match management.bindings_from(&exchange.name).await? {
            BindingsResponse::Bindings(bindings) => listed.extend(bindings),
            BindingsResponse::Unavailable(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(differences(topology, &listed)))
}

fn differences(topology: &Topology, listed: &[ListedBinding]) -> Vec<TopologyDifference> {
    let declared = topology.bindings.iter().filter(|binding| !listed.iter().any(|found| is_listed_as(binding, found)));
    let missing = declared.map(|binding| TopologyDifference {
        what: binding_name(&binding.exchange, &binding.queue),
        declared: format!("with {:?}", binding.pattern),
        found: "nothing".to_owned(),
        advice: "run `onceward topology declare`; messages published meanwhile did not reach the queue".to_owned(),
    });
    // Queues of other programs may be bound to our exchanges freely.
    let ours = listed
        .iter()
        .filter(|found| found.destination_type == "queue" && topology.find_queue(&found.destination).is_some());
    let extra = ours.filter(|found| !topology.bindings.iter().any(|binding| is_listed_as(binding, found)));
    let extra = extra.map(|found| TopologyDifference {
        what: binding_name(&found.source, &found.destination),
        declared: "nothing".to_owned(),
        found: format!("with {:?}", found.routing_key),
        advice:
            "declare it, or remove it with `rabbitmqadmin delete binding`: it delivers messages to the queue that no \
                 service expects"
                .to_owned(),
    });
    missing.chain(extra).collect()
}

fn is_listed_as(binding: &Binding, found: &ListedBinding) -> bool {
    let ends = (found.source.as_str(), found.destination.as_str(), found.routing_key.as_str());
    found.destination_type == "queue" && ends == (&*binding.exchange, &*binding.queue, &*binding.pattern)
}

fn binding_name(exchange: &str, queue: &str) -> String {
    format!("binding {exchange} -> {queue}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_topology::{Exchange, Queue};

    fn listed(source: &str, destination: &str, destination_type: &str, routing_key: &str) -> ListedBinding {
        let own = str::to_owned;
        ListedBinding {
            source: own(source),
            destination: own(destination),
            destination_type: own(destination_type),
            routing_key: own(routing_key),
        }
    }

    #[test]
    fn missing_and_undeclared_bindings_are_differences() {
        let topology = Topology::new()
            .exchange(Exchange::topic("events"))
            .queue(Queue::work("q"))
            .bind("events", "a.#", "q")
            .bind("events", "b", "q");
        let found = [
            listed("events", "q", "queue", "a.#"),
            listed("events", "q", "queue", "old"),
            listed("events", "theirs", "queue", "#"),
            listed("events", "q", "exchange", "b"),
        ];
        let differences: Vec<(String, String)> =
            differences(&topology, &found).into_iter().map(|one| (one.declared, one.found)).collect();
        let pair = |declared: &str, found: &str| (declared.to_owned(), found.to_owned());
        assert_eq!(differences, [pair("with \"b\"", "nothing"), pair("nothing", "with \"old\"")]);
    }
}
