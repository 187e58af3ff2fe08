//! Running the platform in one or more roles, until it is told to stop.

use crate::{Config, Platform, TaskContext, broker, outbox_status};
use onceward_db::{Db, DbConfig};
use onceward_envelope::SystemClock;
use onceward_messaging::{
    Publisher,
    consumer::{Slots, Worker, WorkerContext},
    landing::Landing,
    measure,
    relay::Relay,
    schedule,
};
use onceward_transport::Broker;
use onceward_transport_postgres::{PostgresTransport, history, retention, routes::OUTBOX, stats};
use onceward_web::{
    AppState, Authenticator, MetricsHandle, Readiness, Routes, build_router, idempotency, install_recorder,
};
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Serves HTTP.
    Api,
    /// Carries messages to the external bus. On PostgreSQL a commit does that, so this role has nothing to do.
    Relay,
    /// Runs consumers.
    Worker,
    /// Publishes schedules and clears away what is old.
    Scheduler,
    /// All of them.
    All,
}

/// The running parts of a process.
pub struct Running {
    db: Db,
    lookups: Db,
    bus: PostgresTransport,
    broker: Option<Arc<dyn Broker>>,
    platform: Platform,
    config: Config,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

const EXPIRED_KEYS_AT_ONCE: u32 = 10_000;
const LOOKUP_CONNECTIONS: usize = 4;

impl Running {
    /// Connects the parts. Nothing runs yet, and the database need not be there yet.
    pub fn new(platform: Platform, config: Config, stop: CancellationToken) -> anyhow::Result<Self> {
        // A publisher that holds a connection looks up routes and lanes. It must not wait for a connection that
        // another publisher holds while that one waits, too: so these look-ups have connections of their own, and so
        // has what a worker does beside its turns.
        let lookups = Db::connect(DbConfig { pool_size: LOOKUP_CONNECTIONS, ..config.db() })?;
        let bus = PostgresTransport::new(lookups.clone(), config.postgres_bus());
        let publisher = Publisher::new(bus.clone(), platform.schemas().clone());
        let db = Db::connect(config.db())?.with_context(Arc::new(publisher));
        let bus = bus.with_db(db.clone());
        let broker = broker::connect(&config, platform.topology())?;
        Ok(Self { db, lookups, bus, broker, platform, config, stop, tasks: JoinSet::new() })
    }

    /// A database handle whose transactions can publish.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Starts serving HTTP on `listener`.
    pub fn serve_http(&mut self, listener: TcpListener) -> anyhow::Result<()> {
        self.serve(listener, self.platform.routes())
    }

    /// Starts serving what is asked about a process without an API: its health and its metrics.
    pub fn serve_metrics(&mut self, listener: TcpListener) -> anyhow::Result<()> {
        self.serve(listener, Vec::new())
    }

    fn serve(&mut self, listener: TcpListener, routes: Vec<(&'static str, Routes)>) -> anyhow::Result<()> {
        let state = AppState::new(
            self.db.clone(),
            self.platform.schemas().clone(),
            Authenticator::new(self.config.auth())?,
            self.config.web(),
            self.readiness(),
            metrics_handle(&self.db, &self.platform),
        )
        .stopped_by(self.stop.clone());
        let router = build_router(state, routes)?;
        let (web, stop) = (self.config.web(), self.stop.clone());
        self.tasks.spawn(async move {
            if let Err(error) = onceward_web::serve(listener, router, &web, stop.clone().cancelled_owned()).await {
                tracing::error!(%error, "the HTTP server ended");
                stop.cancel();
            }
        });
        Ok(())
    }

    /// Starts every consumer, and what goes on beside them.
    pub fn run_consumers(&mut self) {
        self.bus.listen();
        let mut context = WorkerContext::new(
            self.db.clone(),
            Arc::new(self.bus.clone()),
            self.platform.schemas().clone(),
            self.platform.topology().clone(),
        );
        context.slots = Slots::new(self.config.workers.slots);
        for consumer in self.platform.consumers() {
            self.tasks.spawn(Worker::run(consumer.clone(), context.clone(), self.stop.clone()));
            if let Some(broker) = &self.broker {
                let landing = Landing {
                    consumer: consumer.name().to_owned(),
                    queue: consumer.queue().to_owned(),
                    ordered: consumer.is_ordered(),
                    prefetch: self.config.bus.prefetch,
                };
                self.tasks.spawn(landing.run(self.bus.clone(), broker.clone(), self.stop.clone()));
            }
        }
        for task in self.platform.tasks() {
            let context = TaskContext { db: self.db.clone(), stop: self.stop.clone(), grace: self.config.grace() };
            self.tasks.spawn(task.clone().supervised(context));
        }
    }

    /// Starts carrying messages to the external bus, if there is one.
    pub fn run_relay(&mut self) {
        if let Some(broker) = &self.broker {
            self.bus.listen();
            let relay = Relay::new(
                self.bus.clone(),
                broker.clone(),
                self.platform.topology().clone(),
                self.lookups.clone(),
                self.config.relay(),
            );
            self.tasks.spawn(relay.run(self.stop.clone()));
        }
    }

    fn readiness(&self) -> Readiness {
        let readiness = Readiness::new().database(self.db.clone(), self.platform.required());
        let (db, ours) = (self.lookups.clone(), self.config.bus_kind());
        let readiness = readiness.check("bus", move || {
            let (db, ours) = (db.clone(), ours.clone());
            async move { outbox_status::same_bus(&db, ours?).await }
        });
        if self.broker.is_none() {
            return readiness;
        }
        let db = self.lookups.clone();
        readiness.advisory("relay", move || {
            let db = db.clone();
            async move { outbox_status::relays_are_well(&db).await }
        })
    }

    /// Starts the schedules and the clearing away.
    pub fn run_schedules(&mut self) {
        let timetables = self.platform.timetables().to_vec();
        self.tasks.spawn(schedule::run(self.db.clone(), timetables, Arc::new(SystemClock), self.stop.clone()));
        let every = Duration::from_secs(self.config.retention.sweep_every_s);
        self.tasks.spawn(sweep(self.db.clone(), self.config.retention(), every, self.stop.clone()));
    }

    /// Starts what `roles` ask for. Without the API, `listener` serves health and metrics.
    pub fn start(&mut self, roles: &[Role], listener: Option<TcpListener>) -> anyhow::Result<()> {
        let has = |role: Role| roles.contains(&role) || roles.contains(&Role::All);
        match listener {
            Some(listener) if has(Role::Api) => self.serve_http(listener)?,
            Some(listener) => self.serve_metrics(listener)?,
            None => anyhow::ensure!(!has(Role::Api), "the API needs an address to listen on"),
        }
        if has(Role::Relay) {
            self.run_relay();
        }
        if has(Role::Worker) {
            self.run_consumers();
        }
        if has(Role::Scheduler) {
            self.run_schedules();
        }
        Ok(())
    }

    /// Waits until told to stop, then lets work in hand finish within the grace period.
    /// `true`: everything was finished or handed back.
    pub async fn finished(mut self) -> bool {
        self.stop.cancelled().await;
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let clean = tokio::time::timeout(self.config.grace(), all).await.is_ok();
        if !clean {
            tracing::warn!("work in hand did not finish in time; it is handed back and will be done again");
        }
        self.tasks.abort_all();
        if let Some(broker) = &self.broker {
            broker.close().await;
        }
        self.db.close();
        self.lookups.close();
        clean
    }
}

async fn sweep(db: Db, keep: retention::Retention, every: Duration, stop: CancellationToken) {
    while !stop.is_cancelled() {
        match retention::sweep(&db, keep).await {
            Ok(swept) => tracing::debug!(?swept, "cleared away what is old"),
            Err(error) => tracing::warn!(%error, "could not clear away what is old; trying again"),
        }
        match history::keep_searchable(&db, history::SETTLED_S).await {
            Ok(indexed) => tracing::debug!(?indexed, "the log is searchable"),
            Err(error) => tracing::warn!(%error, "could not keep the log searchable; trying again"),
        }
        if let Err(error) = idempotency::forget_expired(&db, EXPIRED_KEYS_AT_ONCE).await {
            tracing::warn!(%error, "could not forget expired idempotency keys; trying again");
        }
        tokio::select! { () = tokio::time::sleep(every) => {}, () = stop.cancelled() => {} }
    }
}

/// Figures that are read when somebody asks for them.
fn metrics_handle(db: &Db, platform: &Platform) -> MetricsHandle {
    let mut handle = MetricsHandle::new(install_recorder());
    platform.describe_figures();
    for sampler in platform.samplers() {
        let db = db.clone();
        handle = handle.sampler(move || sampler(db.clone()));
    }
    let db = db.clone();
    handle.sampler(move || {
        let db = db.clone();
        async move {
            let pool = db.status();
            for (state, count) in
                [("open", pool.size), ("idle", pool.idle), ("waiting", pool.waiting), ("max", pool.max_size)]
            {
                metrics::gauge!(measure::POOL_CONNECTIONS, "state" => state).set(count as f64);
            }
            match stats::queue_stats(&db).await {
                Ok(queues) => queues.iter().for_each(report),
                Err(error) => tracing::warn!(%error, "queue figures are not available"),
            }
        }
    })
}

fn report(queue: &stats::QueueStats) {
    let name = queue.queue.clone();
    if name == OUTBOX {
        // On the Postgres bus the commit publishes, so nothing ever waits to be.
        metrics::gauge!(measure::OUTBOX_UNPUBLISHED).set((queue.depth + queue.deferred) as f64);
    }
    metrics::gauge!(measure::QUEUE_DEPTH, "queue" => name.clone()).set(queue.depth as f64);
    metrics::gauge!(measure::CONSUMER_LAG_SECONDS, "queue" => name.clone()).set(queue.lag_seconds);
    metrics::gauge!(measure::DEFERRED, "queue" => name.clone()).set(queue.deferred as f64);
    metrics::gauge!(measure::DEAD_LETTERS_OPEN, "queue" => name).set(queue.dead as f64);
}
