//! Services put together, checked before anything runs.

use crate::{
    Service,
    service::Sampler,
    slo::{self, Slo},
    task::Task,
};
use onceward_db::{DbConfig, DbError, Migrations, RequiredTable, migrate};
use onceward_envelope::{EventType, SchemaRegistry};
use onceward_messaging::{Consumer, schedule::Timetable};
use onceward_topology::{QueueKind, Topology};
use onceward_transport::{BusKind, TransportError};
use onceward_transport_postgres::declare;
use onceward_web::{
    Routes,
    routes::{Access, RouteSpec},
};
use std::collections::BTreeSet;

/// Services that fit together.
#[derive(Clone)]
pub struct Platform {
    services: Vec<Service>,
    schemas: SchemaRegistry,
    topology: Topology,
    timetables: Vec<Timetable>,
}

/// Everything that does not fit, at once.
#[derive(Debug, thiserror::Error)]
#[error("the services do not fit together:\n{}", .0.iter().map(|problem| format!("  - {problem}")).collect::<Vec<_>>().join("\n"))]
pub struct AssemblyError(pub Vec<String>);

impl Platform {
    /// Puts `services` together.
    pub fn assemble(services: Vec<Service>) -> Result<Self, AssemblyError> {
        let mut problems = Vec::new();
        let schemas = schemas(&services, &mut problems);
        let topology = topology(&services, &mut problems);
        let timetables = timetables(&services, &schemas, &mut problems);
        check_consumers(&services, &schemas, &topology, &mut problems);
        check_migrations(&services, &mut problems);
        problems.extend(slo::clashes(services.iter().flat_map(|service| &service.slos)));
        if problems.is_empty() {
            Ok(Self { services, schemas, topology, timetables })
        } else {
            Err(AssemblyError(problems))
        }
    }

    /// All contracts.
    pub fn schemas(&self) -> &SchemaRegistry {
        &self.schemas
    }

    /// The whole topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// All consumers.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.services.iter().flat_map(|service| &service.consumers)
    }

    /// What goes on beside the consumers.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.services.iter().flat_map(|service| &service.tasks)
    }

    /// All schedules.
    pub fn timetables(&self) -> &[Timetable] {
        &self.timetables
    }

    /// The routes of each service.
    pub fn routes(&self) -> Vec<(&'static str, Routes)> {
        self.services.iter().filter_map(|service| Some((service.name, service.routes.as_ref()?()))).collect()
    }

    /// Every role that a route asks for.
    pub fn roles(&self) -> Vec<String> {
        let roles: BTreeSet<String> =
            self.routes().iter().flat_map(|(_, routes)| routes.specs().filter_map(role).collect::<Vec<_>>()).collect();
        roles.into_iter().collect()
    }

    /// The service-level objectives of each service.
    pub fn slos(&self) -> impl Iterator<Item = (&'static str, &Slo)> {
        self.services.iter().flat_map(|service| service.slos.iter().map(|slo| (service.name, slo)))
    }

    /// Gives every figure its help text: the platform's and those of the services.
    pub fn describe_figures(&self) {
        onceward_messaging::measure::describe();
        self.services.iter().flat_map(|service| &service.describe).for_each(|describe| describe());
    }

    /// What sets the services' own gauges.
    pub(crate) fn samplers(&self) -> Vec<Sampler> {
        self.services.iter().flat_map(|service| service.samplers.iter().cloned()).collect()
    }

    /// The names of the services.
    pub fn names(&self) -> Vec<&'static str> {
        self.services.iter().map(Service::name).collect()
    }

    /// Every column the code relies on.
    pub fn required(&self) -> Vec<RequiredTable> {
        let mut required = onceward_transport_postgres::REQUIRED.to_vec();
        required.extend_from_slice(onceward_web::REQUIRED);
        required.extend(self.services.iter().flat_map(|service| service.required.iter().copied()));
        required
    }

    /// Every migration, in the order of the schemas.
    pub fn migrations(&self) -> Vec<Migrations> {
        let mut all = vec![onceward_transport_postgres::MIGRATIONS, onceward_web::MIGRATIONS];
        for migrations in self.services.iter().flat_map(|service| &service.migrations) {
            if all.iter().all(|known| known.schema != migrations.schema) {
                all.push(*migrations);
            }
        }
        all
    }

    /// Applies what is missing and declares the topology; messages go over `bus` from now on. Gives the steps applied.
    pub async fn migrate(&self, config: &DbConfig, bus: BusKind) -> Result<Vec<String>, TransportError> {
        let all = self.migrations();
        let mut applied = migrate::migrate(config, &all).await.map_err(|error: DbError| TransportError::from(error))?;
        if declare::declare(config, &self.topology, bus).await? {
            applied.push("topology declared".into());
        }
        Ok(applied)
    }
}

fn role(spec: &RouteSpec) -> Option<String> {
    match &spec.access {
        Access::Role(role) => Some(role.to_string()),
        Access::Public | Access::Authenticated => None,
    }
}

fn schemas(services: &[Service], problems: &mut Vec<String>) -> SchemaRegistry {
    let mut builder = SchemaRegistry::builder();
    for service in services {
        for schema in &service.schemas {
            match builder.clone().add_json(schema) {
                Ok(added) => builder = added,
                Err(error) => problems.push(format!("service {}: {error}", service.name)),
            }
        }
    }
    builder.build().unwrap_or_else(|error| {
        problems.push(error.to_string());
        SchemaRegistry::builder().build().expect("an empty registry is valid")
    })
}

fn topology(services: &[Service], problems: &mut Vec<String>) -> Topology {
    let mut whole = Topology::new();
    for service in services {
        match whole.clone().merge(service.topology.clone()) {
            Ok(merged) => whole = merged,
            Err(conflict) => problems.push(format!("service {}: {conflict}", service.name)),
        }
    }
    if let Err(found) = whole.validate() {
        problems.extend(found.iter().map(ToString::to_string));
    }
    whole
}

fn timetables(services: &[Service], schemas: &SchemaRegistry, problems: &mut Vec<String>) -> Vec<Timetable> {
    let mut timetables = Vec::new();
    for schedule in services.iter().flat_map(|service| &service.schedules) {
        if !schemas.contains(&schedule.event_type) {
            problems.push(format!("schedule {}: there is no schema {}", schedule.name, schedule.event_type));
        }
        match Timetable::new(schedule.clone()) {
            Ok(timetable) => timetables.push(timetable),
            Err(error) => problems.push(error.to_string()),
        }
    }
    timetables
}

/// One schema has one list of steps, however many services declare it.
fn check_migrations(services: &[Service], problems: &mut Vec<String>) {
    let mut known: Vec<(&str, Migrations)> =
        vec![("the platform", onceward_transport_postgres::MIGRATIONS), ("the platform", onceward_web::MIGRATIONS)];
    for service in services {
        for migrations in &service.migrations {
            match known.iter().find(|(_, other)| other.schema == migrations.schema) {
                None => known.push((service.name, *migrations)),
                Some((_, other)) if other == migrations => {}
                Some((owner, _)) => problems.push(format!(
                    "service {} declares other migrations for the schema {} than {owner}; give it a schema of its own",
                    service.name, migrations.schema
                )),
            }
        }
    }
}

fn check_consumers(services: &[Service], schemas: &SchemaRegistry, topology: &Topology, problems: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    let mut queues = BTreeSet::new();
    for consumer in services.iter().flat_map(|service| &service.consumers) {
        let name = consumer.name();
        if !names.insert(name) {
            problems.push(format!("two consumers are called {name}"));
        }
        if !queues.insert(consumer.queue()) {
            problems.push(format!("queue {} has two consumers; bind a queue of its own for {name}", consumer.queue()));
        }
        match topology.find_queue(consumer.queue()) {
            Some(queue) if queue.kind == QueueKind::Work => {}
            Some(_) => {
                problems.push(format!("consumer {name} reads {}, which is a dead-letter store", consumer.queue()))
            }
            None => problems.push(format!("consumer {name} reads {}, which is not declared", consumer.queue())),
        }
        let types: Vec<EventType> = consumer.event_types();
        if types.is_empty() && !consumer.handles_any() {
            problems.push(format!("consumer {name} handles nothing"));
        }
        for event_type in types.iter().filter(|event_type| !schemas.contains(event_type.schema_id())) {
            problems.push(format!("consumer {name} handles {event_type}, which has no schema"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_db::Migration;

    const SHARED: Migrations = Migrations { schema: "shared", steps: &[Migration { name: "0001_a", sql: "" }] };
    const OWN: Migrations = Migrations { schema: "own", steps: &[] };

    fn schemas_of(services: Vec<Service>) -> Result<Vec<&'static str>, AssemblyError> {
        let platform = Platform::assemble(services)?;
        Ok(platform.migrations().iter().map(|migrations| migrations.schema).skip(2).collect())
    }

    #[test]
    fn a_schema_that_two_services_declare_is_applied_once_in_the_order_of_declaration() {
        let first = Service::new("first").migrations(SHARED).migrations(OWN);
        let second = Service::new("second").migrations(SHARED);
        assert_eq!(schemas_of(vec![first, second]).expect("they fit"), ["shared", "own"]);
    }

    #[test]
    fn two_services_that_mean_different_tables_by_one_schema_do_not_fit() {
        let other = Migrations { schema: "shared", steps: &[Migration { name: "0001_b", sql: "" }] };
        let services = vec![Service::new("first").migrations(SHARED), Service::new("second").migrations(other)];
        let problems = schemas_of(services).expect_err("they do not fit").to_string();
        assert!(problems.contains("second declares other migrations for the schema shared than first"), "{problems}");
        let taken = Migrations { schema: onceward_web::MIGRATIONS.schema, steps: &[] };
        assert!(schemas_of(vec![Service::new("third").migrations(taken)]).is_err());
    }
    #[test]
    fn two_services_that_give_one_name_to_two_objectives_do_not_fit() {
        let services = vec![Service::new("first").slo(Slo::new("relay-lag", "Another than the platform's"))];
        let problems = Platform::assemble(services).err().expect("they do not fit").to_string();
        assert!(problems.contains("two service-level objectives are called relay-lag"), "{problems}");
    }
}
