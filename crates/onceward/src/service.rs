//! A service, as a value that declares all it owns.

use crate::{
    slo::Slo,
    task::{Task, TaskContext, TaskError},
};
use onceward_db::{Db, Migrations, RequiredTable};
use onceward_messaging::Consumer;
use onceward_topology::{Schedule, Topology};
use onceward_web::Routes;
use std::{future::Future, pin::Pin, sync::Arc};

pub(crate) type Sampler = Arc<dyn Fn(Db) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What a service is made of.
#[derive(Clone)]
pub struct Service {
    pub(crate) name: &'static str,
    pub(crate) migrations: Vec<Migrations>,
    pub(crate) required: Vec<RequiredTable>,
    pub(crate) schemas: Vec<&'static str>,
    pub(crate) topology: Topology,
    pub(crate) routes: Option<Arc<dyn Fn() -> Routes + Send + Sync>>,
    pub(crate) consumers: Vec<Consumer>,
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) slos: Vec<Slo>,
    pub(crate) describe: Vec<fn()>,
    pub(crate) samplers: Vec<Sampler>,
}

impl Service {
    /// A service that owns nothing yet.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            migrations: Vec::new(),
            required: Vec::new(),
            schemas: Vec::new(),
            topology: Topology::new(),
            routes: None,
            consumers: Vec::new(),
            schedules: Vec::new(),
            tasks: Vec::new(),
            slos: Vec::new(),
            describe: Vec::new(),
            samplers: Vec::new(),
        }
    }

    /// Its tables, in a PostgreSQL schema of its own. Call it once for each schema, in the order
    /// in which they build on each other; one that several services declare is applied once.
    pub fn migrations(mut self, migrations: Migrations) -> Self {
        self.migrations.push(migrations);
        self
    }

    /// Columns without which it must not take traffic.
    pub fn requires(mut self, tables: &[RequiredTable]) -> Self {
        self.required.extend_from_slice(tables);
        self
    }

    /// Its contracts: JSON Schemas as text, each with an `$id`.
    pub fn schemas(mut self, schemas: &[&'static str]) -> Self {
        self.schemas.extend_from_slice(schemas);
        self
    }

    /// Its exchanges, queues and bindings.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Its HTTP surface.
    pub fn routes(mut self, routes: impl Fn() -> Routes + Send + Sync + 'static) -> Self {
        self.routes = Some(Arc::new(routes));
        self
    }

    /// One of its consumers.
    pub fn consumer(mut self, consumer: Consumer) -> Self {
        self.consumers.push(consumer);
        self
    }

    /// One of its schedules.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedules.push(schedule);
        self
    }

    /// Work that goes on by itself in every worker process. It ends when told to stop; if it fails, it is begun again.
    pub fn task<F, Fut>(mut self, name: &'static str, run: F) -> Self
    where
        F: Fn(TaskContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        self.tasks.push(Task::new(name, run));
        self
    }

    /// One of its service-level objectives.
    pub fn slo(mut self, slo: Slo) -> Self {
        self.slos.push(slo);
        self
    }

    /// Gives figures of its own their help texts. What an objective reads must be described.
    pub fn figures(mut self, describe: fn()) -> Self {
        self.describe.push(describe);
        self
    }

    /// Sets gauges from a cheap look at the database, just before they are read and at most once a second.
    pub fn sampler<F, Fut>(mut self, sampler: F) -> Self
    where
        F: Fn(Db) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.samplers.push(Arc::new(move |db| Box::pin(sampler(db))));
        self
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}
