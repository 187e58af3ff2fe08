//! Puts the declarations of all services together and checks that they fit. Every problem becomes one sentence that says
//! what to change; [`crate::Platform::assemble`] reports all of them at once.

use crate::{Service, platform::PLATFORM_MIGRATIONS, service::PublishedEvent};
use onceward_db::Migrations;
use onceward_envelope::{EventType, SchemaRegistry};
use onceward_messaging::schedule::Timetable;
use onceward_topology::{QueueKind, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the schemas of all services. A schema that is invalid or declared twice is a problem.
pub(crate) fn schemas(services: &[Service], problems: &mut Vec<String>) -> SchemaRegistry {
    let mut builder = SchemaRegistry::builder();
    let of_services = services.iter().flat_map(|service| service.schemas.iter().map(|schema| (service.name, *schema)));
    for (service, schema) in onceward_web::SCHEMAS.iter().map(|schema| ("onceward-web", *schema)).chain(of_services) {
        match builder.clone().add_json(schema) {
            Ok(added) => builder = added,
            Err(error) => problems.push(format!("service {service}: {error}")),
        }
    }
    builder.build().unwrap_or_else(|error| {
        problems.push(error.to_string());
        SchemaRegistry::builder().build().expect("an empty registry is valid")
    })
}

/// Returns the topology of all services. Conflicting or incomplete declarations are problems.
pub(crate) fn topology(services: &[Service], problems: &mut Vec<String>) -> Topology {
    let mut merged = Topology::new();
    for service in services {
        match merged.clone().merge(service.topology.clone()) {
            Ok(larger) => merged = larger,
            Err(conflict) => problems.push(format!("service {}: {conflict}", service.name)),
        }
    }
    if let Err(found) = merged.validate() {
        problems.extend(found.iter().map(ToString::to_string));
    }
    merged
}

/// Returns the schedules of all services, parsed. A schedule whose messages could not be published is a problem.
pub(crate) fn schedules(
    services: &[Service],
    schemas: &SchemaRegistry,
    topology: &Topology,
    problems: &mut Vec<String>,
) -> Vec<Timetable> {
    let mut schedules = Vec::new();
    let mut names = BTreeSet::new();
    for schedule in services.iter().flat_map(|service| &service.schedules) {
        if !names.insert(&schedule.name) {
            problems.push(format!("two schedules are called {}; rename one", schedule.name));
        }
        match Timetable::new(schedule.clone()) {
            Ok(parsed) => {
                problems.extend(parsed.problems(schemas, topology));
                schedules.push(parsed);
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    schedules
}

/// Checks the declarations of destinations, and that no two have the same name.
pub(crate) fn check_destinations(services: &[Service], problems: &mut Vec<String>) {
    let mut declared = BTreeMap::new();
    for service in services {
        for destination in &service.destinations {
            problems.extend(destination.validate().into_iter().map(|mistake| format!("{}: {mistake}", service.name)));
            if let Some(other) = declared.insert(destination.name(), service.name) {
                let name = destination.name();
                problems
                    .push(format!("{} and {other} both declare the destination {name:?}; rename one", service.name));
            }
        }
    }
}

/// Checks that one schema has one list of migrations, even if several services declare it.
pub(crate) fn check_migrations(services: &[Service], problems: &mut Vec<String>) {
    let mut known: Vec<(&str, Migrations)> =
        PLATFORM_MIGRATIONS.iter().map(|migrations| ("the platform", *migrations)).collect();
    for service in services {
        for migrations in &service.migrations {
            match known.iter().find(|(_, other)| other.schema == migrations.schema) {
                None => known.push((service.name, *migrations)),
                Some((_, other)) if other == migrations => {}
                Some((owner, _)) => problems.push(format!(
                    "service {} declares other migrations for the schema {} than {owner}; use another schema",
                    service.name, migrations.schema
                )),
            }
        }
    }
}

/// Checks that every published event has an exchange and a schema.
pub(crate) fn check_published(
    services: &[Service],
    schemas: &SchemaRegistry,
    topology: &Topology,
    problems: &mut Vec<String>,
) {
    for service in services {
        for PublishedEvent { event_type, exchange } in &service.published {
            if topology.find_exchange(exchange).is_none() {
                problems.push(format!(
                    "service {} publishes {event_type} to the exchange {exchange}, which is not declared; add it to a topology",
                    service.name
                ));
            }
            match event_type.parse::<EventType>() {
                Ok(known) if schemas.contains(known.schema_id()) => {}
                Ok(_) => problems.push(format!(
                    "service {} publishes {event_type}, which has no schema; add it to the service's schemas",
                    service.name
                )),
                Err(error) => problems.push(format!("service {} publishes {event_type}: {error}", service.name)),
            }
        }
    }
}

/// Checks that every consumer has a name and a work queue of its own, and that the types it handles have schemas.
pub(crate) fn check_consumers(
    services: &[Service],
    schemas: &SchemaRegistry,
    topology: &Topology,
    problems: &mut Vec<String>,
) {
    let mut names = BTreeSet::new();
    let mut queues = BTreeSet::new();
    for consumer in services.iter().flat_map(|service| &service.consumers) {
        let name = consumer.name();
        if !names.insert(name) {
            problems.push(format!("two consumers are called {name}; rename one"));
        }
        if !queues.insert(consumer.queue()) {
            problems.push(format!("queue {} has two consumers; declare another queue for {name}", consumer.queue()));
        }
        match topology.find_queue(consumer.queue()) {
            Some(queue) if queue.kind == QueueKind::Work => {}
            Some(_) => problems.push(format!(
                "consumer {name} reads {}, which is a dead-letter store; declare a work queue for it",
                consumer.queue()
            )),
            None => problems.push(format!(
                "consumer {name} reads {}, which is not declared; add the queue to a topology",
                consumer.queue()
            )),
        }
        let types: Vec<EventType> = consumer.event_types();
        if types.is_empty() && !consumer.handles_any() {
            problems.push(format!("consumer {name} has no handlers; add one, or remove the consumer"));
        }
        for event_type in types.iter().filter(|event_type| !schemas.contains(event_type.schema_id())) {
            problems.push(format!(
                "consumer {name} handles {event_type}, which has no schema; add it to the service's schemas"
            ));
        }
    }
}

fn is_declared(services: &[Service], destination: &str) -> bool {
    services.iter().flat_map(|service| &service.destinations).any(|declared| declared.name() == destination)
}

/// Checks that worker pools have usable settings, and that each queue has a consumer and one pool.
pub(crate) fn check_pools(services: &[Service], problems: &mut Vec<String>) {
    let read: BTreeSet<&str> =
        services.iter().flat_map(|service| &service.consumers).map(|consumer| consumer.queue()).collect();
    let (mut names, mut queues) = (BTreeSet::new(), BTreeSet::new());
    for pool in services.iter().flat_map(|service| &service.pools) {
        problems.extend(pool.validate());
        if !names.insert(&pool.name) {
            problems.push(format!("two worker pools are called {}; rename one", pool.name));
        }
        for destination in pool.destinations.iter().filter(|name| !is_declared(services, name)) {
            problems.push(format!(
                "pool {:?} calls the destination {destination:?}, which is not declared; add it to the service",
                pool.name
            ));
        }
        for queue in &pool.queues {
            if !read.contains(queue.as_str()) {
                problems
                    .push(format!("pool {:?} has the queue {queue}, which no consumer reads; remove it", pool.name));
            }
            if !queues.insert(queue) {
                problems.push(format!("queue {queue} is in two worker pools; remove it from one"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_outbound::Destination;
    use std::time::Duration;

    #[test]
    fn wrong_and_repeated_destinations_are_reported() {
        let first = Service::new("crm").destination(Destination::new("sms"));
        let second = Service::new("admissions").destination(Destination::new("sms").timeout(Duration::ZERO));
        let mut problems = Vec::new();
        check_destinations(&[first, second], &mut problems);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[1].contains("admissions and crm both declare the destination \"sms\""), "{problems:?}");
    }
}
