//! The assembled services: everything they declare, as one platform. The checks are in [`crate::assembly`].

use crate::{
    Service, assembly,
    service::GaugeSampler,
    slo::{self, Slo},
    story::Contributor,
    task::ServiceTask,
};
use onceward_broker::BusKind;
use onceward_db::{DbConfig, DbError, Migrations, RequiredTable, migrate};
use onceward_envelope::SchemaRegistry;
use onceward_message_log::{BusError, declare, triage::Operator};
use onceward_messaging::{Consumer, measure::PublishCounter, schedule::Timetable};
use onceward_outbound::Destination;
use onceward_resilience::autoscale::PoolSettings;
use onceward_topology::Topology;
use onceward_web::{
    Routes,
    routes::{Access, RouteSpec},
};
use std::collections::BTreeSet;

/// The migrations of every platform. Operators' actions are audited whatever the services do.
pub(crate) const PLATFORM_MIGRATIONS: &[Migrations] = &[
    onceward_message_log::MIGRATIONS,
    onceward_web::MIGRATIONS,
    onceward_audit::MIGRATIONS,
    onceward_outbound::MIGRATIONS,
];

/// Services that were checked and fit together.
#[derive(Clone)]
pub struct Platform {
    services: Vec<Service>,
    schemas: SchemaRegistry,
    topology: Topology,
    schedules: Vec<Timetable>,
}

/// Everything that is wrong with the services, reported at once.
#[derive(Debug, thiserror::Error)]
#[error("the services do not fit together:\n{}", .0.iter().map(|problem| format!("  - {problem}")).collect::<Vec<_>>().join("\n"))]
pub struct AssemblyError(pub Vec<String>);

impl Platform {
    /// Assembles `services`. Fails with every problem if they do not fit together.
    pub fn assemble(services: Vec<Service>) -> Result<Self, AssemblyError> {
        let mut problems = Vec::new();
        let schemas = assembly::schemas(&services, &mut problems);
        let topology = assembly::topology(&services, &mut problems);
        let schedules = assembly::schedules(&services, &schemas, &topology, &mut problems);
        assembly::check_published(&services, &schemas, &topology, &mut problems);
        assembly::check_consumers(&services, &schemas, &topology, &mut problems);
        assembly::check_pools(&services, &mut problems);
        assembly::check_migrations(&services, &mut problems);
        assembly::check_destinations(&services, &mut problems);
        let routes = routes_of(&services);
        problems.extend(onceward_web::routes::check(&routes, &schemas).iter().map(ToString::to_string));
        problems.extend(slo::duplicate_names(services.iter().flat_map(|service| &service.slos)));
        if problems.is_empty() {
            Ok(Self { services, schemas, topology, schedules })
        } else {
            Err(AssemblyError(problems))
        }
    }

    /// Returns the JSON Schemas of all services.
    pub fn schemas(&self) -> &SchemaRegistry {
        &self.schemas
    }

    /// Returns the topology of all services.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the consumers of all services.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.services.iter().flat_map(|service| &service.consumers)
    }

    /// Returns the worker pools of all services.
    pub fn pools(&self) -> Vec<PoolSettings> {
        self.services.iter().flat_map(|service| service.pools.iter().cloned()).collect()
    }

    /// Whether `event_type` is a fact of a service without a subscriber, so that it is intentionally not routed.
    pub fn is_unsubscribed(&self, event_type: &str) -> bool {
        let is_handled = || {
            let mut handled = self.consumers().flat_map(|consumer| consumer.event_types());
            handled.any(|known| known.to_string() == event_type)
        };
        self.schemas.get(event_type).is_some() && !is_handled()
    }

    /// Returns the tasks that run beside the consumers.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &ServiceTask> {
        self.services.iter().flat_map(|service| &service.tasks)
    }

    /// Returns the schedules of all services.
    pub fn schedules(&self) -> &[Timetable] {
        &self.schedules
    }

    /// Returns the routes of each service.
    pub fn routes(&self) -> Vec<(&'static str, Routes)> {
        routes_of(&self.services)
    }

    /// Returns every role that a route requires.
    pub fn roles(&self) -> Vec<String> {
        let roles: BTreeSet<String> =
            self.routes().iter().flat_map(|(_, routes)| routes.specs().filter_map(role).collect::<Vec<_>>()).collect();
        roles.into_iter().collect()
    }

    /// Returns the service-level objectives of each service.
    pub fn slos(&self) -> impl Iterator<Item = (&'static str, &Slo)> {
        self.services.iter().flat_map(|service| service.slos.iter().map(|slo| (service.name, slo)))
    }

    /// Registers the help text of every metric: the platform's and those of the services.
    pub fn describe_metrics(&self) {
        onceward_messaging::measure::describe();
        onceward_outbound::describe_metrics();
        self.services.iter().flat_map(|service| &service.describe_metrics).for_each(|describe| describe());
    }

    /// Returns the functions that set the services' own gauges.
    pub(crate) fn samplers(&self) -> Vec<GaugeSampler> {
        self.services.iter().flat_map(|service| service.samplers.iter().cloned()).collect()
    }

    /// Returns the services' own counters of published messages.
    pub(crate) fn publish_counters(&self) -> Vec<PublishCounter> {
        self.services.iter().flat_map(|service| service.publish_counters.iter().copied()).collect()
    }

    /// Returns the services' queries for the other correlation ids of a story.
    pub fn story_links(&self) -> impl Iterator<Item = &'static str> {
        self.services.iter().flat_map(|service| service.story_links.iter().copied())
    }

    /// Returns the functions that look up the services' contributions to a story.
    pub fn contributors(&self) -> impl Iterator<Item = (&'static str, &Contributor)> {
        self.services.iter().filter_map(|service| Some((service.name, service.contributor.as_ref()?)))
    }

    /// Returns the destinations that the services declared.
    pub fn destinations(&self) -> impl Iterator<Item = &Destination> {
        self.services.iter().flat_map(|service| &service.destinations)
    }

    /// Returns the names of the services.
    pub fn names(&self) -> Vec<&'static str> {
        self.services.iter().map(Service::name).collect()
    }

    /// Returns every column the code relies on.
    pub fn required(&self) -> Vec<RequiredTable> {
        let mut required = onceward_message_log::REQUIRED.to_vec();
        required.extend_from_slice(onceward_web::REQUIRED);
        required.extend_from_slice(onceward_audit::REQUIRED);
        required.extend_from_slice(onceward_outbound::REQUIRED);
        required.extend(self.services.iter().flat_map(|service| service.required.iter().copied()));
        required
    }

    /// Returns every migration, in the order of the schemas.
    pub fn migrations(&self) -> Vec<Migrations> {
        let mut all = PLATFORM_MIGRATIONS.to_vec();
        for migrations in self.services.iter().flat_map(|service| &service.migrations) {
            if all.iter().all(|known| known.schema != migrations.schema) {
                all.push(*migrations);
            }
        }
        all
    }

    /// Applies missing migrations, declares the topology, and records `bus` as the bus of all messages from now on. Returns
    /// the applied steps.
    pub async fn migrate(&self, config: &DbConfig, bus: BusKind) -> Result<Vec<String>, BusError> {
        self.migrate_as(config, bus, None).await
    }

    /// Like [`Platform::migrate`], on behalf of `operator`: topology changes are recorded in the platform's audit chain.
    pub async fn migrate_as(
        &self,
        config: &DbConfig,
        bus: BusKind,
        operator: Option<&Operator>,
    ) -> Result<Vec<String>, BusError> {
        let all = self.migrations();
        let mut applied = migrate::migrate(config, &all).await.map_err(|error: DbError| BusError::from(error))?;
        if !declare::declare_and_report(config, &self.topology, bus, operator, &[]).await?.is_empty() {
            applied.push("topology declared".into());
        }
        Ok(applied)
    }
}

fn routes_of(services: &[Service]) -> Vec<(&'static str, Routes)> {
    services.iter().filter_map(|service| Some((service.name, service.routes.as_ref()?()))).collect()
}

fn role(spec: &RouteSpec) -> Option<String> {
    match &spec.access {
        Access::Role(role) => Some(role.to_string()),
        Access::Public | Access::Authenticated => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_db::Migration;
    use onceward_topology::{Exchange, Schedule};

    const SHARED: Migrations = Migrations { schema: "shared", steps: &[Migration { name: "0001_a", sql: "" }] };
    const OWN: Migrations = Migrations { schema: "own", steps: &[] };

    fn schemas_of(services: Vec<Service>) -> Result<Vec<&'static str>, AssemblyError> {
        let platform = Platform::assemble(services)?;
        Ok(platform.migrations().iter().map(|migrations| migrations.schema).skip(PLATFORM_MIGRATIONS.len()).collect())
    }

    #[test]
    fn a_schema_that_two_services_declare_is_applied_once_in_the_order_of_declaration() {
        let first = Service::new("first").migrations(SHARED).migrations(OWN);
        let second = Service::new("second").migrations(SHARED);
        assert_eq!(schemas_of(vec![first, second]).expect("they fit"), ["shared", "own"]);
    }

    #[test]
    fn two_services_with_different_migrations_for_one_schema_do_not_fit() {
        let other = Migrations { schema: "shared", steps: &[Migration { name: "0001_b", sql: "" }] };
        let services = vec![Service::new("first").migrations(SHARED), Service::new("second").migrations(other)];
        let problems = schemas_of(services).expect_err("they do not fit").to_string();
        assert!(problems.contains("second declares other migrations for the schema shared than first"), "{problems}");
        let taken = Migrations { schema: onceward_web::MIGRATIONS.schema, steps: &[] };
        assert!(schemas_of(vec![Service::new("third").migrations(taken)]).is_err());
    }

    #[test]
    fn schedules_whose_ticks_could_not_be_published_do_not_fit() {
        let schema = r#"{"$id": "t.tick.v1", "type": "object", "required": ["reason"]}"#;
        let schedule = |name: &str, topic: &str, event_type: &str| Schedule::new(name, "0 * * * *", topic, event_type);
        let service = Service::new("first")
            .schemas(&[schema])
            .topology(Topology::new().exchange(Exchange::topic("known")))
            .schedule(schedule("lost", "nowhere:x", "t.tick.v1"))
            .schedule(schedule("wrong", "known:x", "t.tick.v1"))
            .schedule(schedule("named", "known:tenant.acme.x", "t.tick.v1"))
            .schedule(schedule("unknown", "known:x", "t.other.v1"))
            .schedule(schedule("unknown", "known", "t.other.v1"));
        let problems = Platform::assemble(vec![service]).err().expect("they do not fit").to_string();
        for expected in [
            "schedule lost: the exchange nowhere is not declared",
            "schedule wrong: its payload (schedule, scheduledFor) does not fit its schema",
            "schedule named: its routing key names a tenant",
            "schedule unknown: there is no schema t.other.v1",
            "schedule unknown: its topic is invalid",
            "two schedules are called unknown",
        ] {
            assert!(problems.contains(expected), "{expected} is not in {problems}");
        }
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Shipped;

    impl onceward_messaging::Event for Shipped {
        const TYPE: &'static str = "parcel.shipped.v1";
        const EXCHANGE: &'static str = "parcels";

        fn routing_key(&self, _: &onceward_envelope::TenantId) -> String {
            "shipped".to_owned()
        }
    }

    #[test]
    fn an_event_that_could_not_be_published_does_not_fit() {
        let service = Service::new("first").publishes::<Shipped>();
        let problems = Platform::assemble(vec![service.clone()]).err().expect("it does not fit").to_string();
        assert!(problems.contains("to the exchange parcels, which is not declared"), "{problems}");
        assert!(problems.contains("publishes parcel.shipped.v1, which has no schema"), "{problems}");
        let declared = service
            .schemas(&[r#"{"$id": "parcel.shipped.v1"}"#])
            .topology(Topology::new().exchange(Exchange::topic("parcels")));
        assert!(Platform::assemble(vec![declared]).is_ok());
    }

    #[test]
    fn two_objectives_with_one_name_do_not_fit() {
        let services = vec![Service::new("first").slo(Slo::new("relay-lag", "Another than the platform's"))];
        let problems = Platform::assemble(services).err().expect("they do not fit").to_string();
        assert!(problems.contains("two service-level objectives are called relay-lag"), "{problems}");
    }
}
