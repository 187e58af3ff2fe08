//! A service, as a value that declares everything it owns.

use crate::{
    slo::Slo,
    story::{Contribution, Contributor},
    task::{ServiceTask, TaskContext, TaskError},
};
use onceward_db::{Db, DbError, Migrations, RequiredTable};
use onceward_envelope::TenantId;
use onceward_messaging::{Consumer, Event, measure::PublishCounter};
use onceward_outbound::Destination;
use onceward_resilience::autoscale::PoolSettings;
use onceward_topology::{Schedule, Topology};
use onceward_web::Routes;
use std::{future::Future, pin::Pin, sync::Arc};
use uuid::Uuid;

pub(crate) type GaugeSampler = Arc<dyn Fn(Db) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// An event that a service declares to publish.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublishedEvent {
    pub(crate) event_type: &'static str,
    pub(crate) exchange: &'static str,
}

/// A service: a name, and everything it owns.
///
/// Nothing runs until a [`Platform`](crate::Platform) of services is assembled, which checks that they fit together.
///
/// ```
/// use onceward::{Platform, Service, prelude::*};
///
/// let service = Service::new("orders")
///     .schemas(&[r#"{"$id": "order.placed.v1", "type": "object"}"#])
///     .topology(
///         Topology::new()
///             .exchange(Exchange::topic("orders.events"))
///             .queue(Queue::work("orders.reserve.v1"))
///             .bind("orders.events", "tenant.*.order.placed", "orders.reserve.v1"),
///     )
///     .schedule(Schedule::new("nightly", "0 2 * * *", "orders.events:nightly", "order.placed.v1"));
/// let platform = Platform::assemble(vec![service]).expect("the service is complete");
/// assert_eq!(platform.names(), ["orders"]);
/// ```
#[derive(Clone)]
pub struct Service {
    pub(crate) name: &'static str,
    pub(crate) migrations: Vec<Migrations>,
    pub(crate) required: Vec<RequiredTable>,
    pub(crate) schemas: Vec<&'static str>,
    pub(crate) topology: Topology,
    pub(crate) routes: Option<Arc<dyn Fn() -> Routes + Send + Sync>>,
    pub(crate) published: Vec<PublishedEvent>,
    pub(crate) consumers: Vec<Consumer>,
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) pools: Vec<PoolSettings>,
    pub(crate) tasks: Vec<ServiceTask>,
    pub(crate) slos: Vec<Slo>,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) describe_metrics: Vec<fn()>,
    pub(crate) samplers: Vec<GaugeSampler>,
    pub(crate) publish_counters: Vec<PublishCounter>,
    pub(crate) story_links: Vec<&'static str>,
    pub(crate) contributor: Option<Contributor>,
}

impl Service {
    /// Creates a service that owns nothing yet.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            migrations: Vec::new(),
            required: Vec::new(),
            schemas: Vec::new(),
            topology: Topology::new(),
            routes: None,
            published: Vec::new(),
            consumers: Vec::new(),
            schedules: Vec::new(),
            pools: Vec::new(),
            tasks: Vec::new(),
            slos: Vec::new(),
            destinations: Vec::new(),
            describe_metrics: Vec::new(),
            samplers: Vec::new(),
            publish_counters: Vec::new(),
            story_links: Vec::new(),
            contributor: None,
        }
    }

    /// Adds the migrations of one PostgreSQL schema. Call it once for each schema, in the order in which they build on each
    /// other; a schema that several services declare is applied once.
    pub fn migrations(mut self, migrations: Migrations) -> Self {
        self.migrations.push(migrations);
        self
    }

    /// Adds columns that must exist before a process of this service is ready.
    pub fn requires(mut self, tables: &[RequiredTable]) -> Self {
        self.required.extend_from_slice(tables);
        self
    }

    /// Adds JSON Schemas, as text with an `$id`: of requests, responses and events.
    pub fn schemas(mut self, schemas: &[&'static str]) -> Self {
        self.schemas.extend_from_slice(schemas);
        self
    }

    /// Sets its exchanges, queues and bindings, replacing earlier ones.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Sets its HTTP routes.
    pub fn routes(mut self, routes: impl Fn() -> Routes + Send + Sync + 'static) -> Self {
        self.routes = Some(Arc::new(routes));
        self
    }

    /// Declares that it publishes `E`, so that a missing exchange or schema is reported when the platform is assembled and
    /// not when the first event is published.
    pub fn publishes<E: Event>(mut self) -> Self {
        self.published.push(PublishedEvent { event_type: E::TYPE, exchange: E::EXCHANGE });
        self
    }

    /// Adds a consumer.
    pub fn consumer(mut self, consumer: impl Into<Consumer>) -> Self {
        self.consumers.push(consumer.into());
        self
    }

    /// Adds a schedule.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedules.push(schedule);
        self
    }

    /// Adds a worker pool: the consumers of its queues share its workers, whose number follows the work within its bounds,
    /// over all processes. It replaces their `concurrency`.
    pub fn pool(mut self, pool: PoolSettings) -> Self {
        self.pools.push(pool);
        self
    }

    /// Adds work that runs continuously in every worker process. It must end when asked to stop; if it fails, it is
    /// restarted.
    pub fn task<F, Fut>(mut self, name: &'static str, run: F) -> Self
    where
        F: Fn(TaskContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        self.tasks.push(ServiceTask::new(name, run));
        self
    }

    /// Declares another system that its leased handlers call. Its name is unique among all services.
    pub fn destination(mut self, destination: Destination) -> Self {
        self.destinations.push(destination);
        self
    }

    /// Adds a service-level objective.
    pub fn slo(mut self, slo: Slo) -> Self {
        self.slos.push(slo);
        self
    }

    /// Registers a function that describes its own metrics. Every metric that an objective reads must be described.
    pub fn metrics(mut self, describe: fn()) -> Self {
        self.describe_metrics.push(describe);
        self
    }

    /// Sets the function that looks up what this service knows about messages, by tenant and event ids; `onceward trace`
    /// shows it.
    pub fn story<F, Fut>(mut self, look_up: F) -> Self
    where
        F: Fn(Db, TenantId, Vec<Uuid>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<Contribution>, DbError>> + Send + 'static,
    {
        self.contributor = Some(Arc::new(move |db, tenant, ids| Box::pin(look_up(db, tenant, ids))));
        self
    }

    /// Adds a function that sets gauges with a cheap query, just before they are read and at most once per second.
    pub fn sampler<F, Fut>(mut self, sampler: F) -> Self
    where
        F: Fn(Db) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.samplers.push(Arc::new(move |db| Box::pin(sampler(db))));
        self
    }

    /// Adds its own counter of the messages of one exchange that the bus has confirmed.
    pub fn publish_counter(mut self, counter: PublishCounter) -> Self {
        self.publish_counters.push(counter);
        self
    }

    /// For services whose messages have their own correlation ids: adds a query that returns the other correlation ids
    /// of a story, at most $2 of them, given one of them as $1. `onceward trace` follows them. It runs in the scope of
    /// a tenant or of none, and must find its rows by an index.
    pub fn story_links(mut self, sql: &'static str) -> Self {
        self.story_links.push(sql);
        self
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use onceward_web::Access;

    #[test]
    fn mistakes_in_the_routes_of_two_services_are_reported_together() {
        let route = || Routes::new().get("/api/x", Access::public(), || async {});
        let services = vec![
            Service::new("first").routes(move || route().responds(200, "nothing.v1")),
            Service::new("second").routes(route),
        ];
        let problems = Platform::assemble(services).err().expect("they do not fit").to_string();
        assert!(problems.contains("service first: GET /api/x names the schema nothing.v1"), "{problems}");
        assert!(problems.contains("service second declares GET /api/x, which is already declared"), "{problems}");
    }
}
