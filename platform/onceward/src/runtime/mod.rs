//! Runs the platform in one or more roles until it is asked to stop.
//!
//! `onceward_cli::main` does this for programs; tests and programs with their own `main` use [`ProcessRuntime`].

mod backlog_monitor;
mod dead_letter_limit;
mod dedicated_sessions;
mod metrics;
mod readiness;
mod sweep;

use crate::{Config, Platform, TaskContext, connect};
use backlog_monitor::BacklogMonitor;
use futures_util::FutureExt;
use metrics::metrics_handle;
use onceward_broker::Broker;
use onceward_db::{Db, DbConfig, DbError, session};
use onceward_message_log::MessageLog;
use onceward_messaging::{
    Publisher,
    collect::DeadLetterCollector,
    consumer::{self, Slots, WorkerContext, WorkerPools},
    landing::Landing,
    relay::Relay,
    schedule,
};
use onceward_outbound::Outbound;
use onceward_supervisor::Supervisor;
use onceward_web::{AppState, Authenticator, Routes, build_router};
use std::{collections::HashMap, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use sweep::sweep;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// A role of a process: what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves HTTP.
    Api,
    /// Publishes outbox messages to the external bus. With PostgreSQL as the bus, the commit publishes and this role is idle.
    Relay,
    /// Runs consumers.
    Worker,
    /// Publishes schedules and removes expired data.
    Scheduler,
    /// All roles.
    All,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] = [Self::Api, Self::Relay, Self::Worker, Self::Scheduler, Self::All];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Relay => "relay",
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
            Self::All => "all",
        }
    }
}

/// The runtime of one process: its connections, and the tasks of its roles.
pub struct ProcessRuntime {
    db: Db,
    lookups: Db,
    message_log: MessageLog,
    broker: Option<Arc<dyn Broker>>,
    backlog_monitor: Option<Arc<BacklogMonitor>>,
    is_counting: bool,
    platform: Platform,
    config: Config,
    stop: CancellationToken,
    draining: CancellationToken,
    hand_back: CancellationToken,
    checks: Vec<(&'static str, ProcessCheck)>,
    tasks: JoinSet<()>,
}

type ProcessCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

const LOOKUP_CONNECTIONS: usize = 4;
/// The part of the grace period that is kept for returning the messages of abandoned calls.
const RETURN_TIME_MAX: Duration = Duration::from_secs(2);

impl ProcessRuntime {
    /// Creates the connection pools and clients. Nothing is running yet, and the database need not be reachable yet. Fails if
    /// the settings are not usable, with an error that says what to change.
    pub fn new(platform: Platform, config: Config, stop: CancellationToken) -> anyhow::Result<Self> {
        // A publisher that holds a connection looks up routes and lanes. It must not wait for a connection that another
        // publisher holds while that one waits too, so these lookups have their own connections, and so does everything
        // a worker does outside its turns.
        let lookups = Db::connect(DbConfig { pool_size: LOOKUP_CONNECTIONS, ..config.db() })?;
        let message_log = MessageLog::new(lookups.clone(), config.message_log());
        let known = platform.clone();
        message_log.expect_unrouted(move |event_type| known.is_unsubscribed(event_type));
        let broker = connect::connect_with_positions(&config, platform.topology(), &lookups)?;
        // With a broker, relays count the messages that it confirms.
        let counters = if broker.is_none() { platform.publish_counters() } else { Vec::new() };
        let publisher = Publisher::new(message_log.clone(), platform.schemas().clone()).counting(counters);
        let db = Db::connect(config.db())?.with_context(Arc::new(publisher));
        let message_log = message_log.with_db(db.clone());
        let monitor =
            |broker: &Arc<dyn Broker>| BacklogMonitor::new(broker.clone(), lookups.clone(), &platform, &config);
        let backlog_monitor = broker.as_ref().map(|broker| Arc::new(monitor(broker)));
        let (draining, hand_back) = (CancellationToken::new(), CancellationToken::new());
        let (is_counting, checks, tasks) = (false, Vec::new(), JoinSet::new());
        Ok(Self {
            db,
            lookups,
            message_log,
            broker,
            backlog_monitor,
            is_counting,
            platform,
            config,
            stop,
            draining,
            hand_back,
            checks,
            tasks,
        })
    }

    /// Returns a database handle whose transactions can publish.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns the supervisor that restarts the long-lived tasks of this process; readiness shows which of them failed.
    pub fn supervisor(&self) -> &Supervisor {
        self.message_log.supervisor()
    }

    /// Returns a token. Once it is cancelled, readiness reports that this process is about to stop, while it still serves.
    pub fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Adds a readiness check specific to this process. Must be called before [`ProcessRuntime::start`].
    pub fn add_check(&mut self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.checks.push((name, Arc::new(check)));
    }

    /// Fails if a pooler shares the server sessions of this process with other clients, because then neither the role nor
    /// the tenant of a transaction is certain. A database that cannot be reached yet is left to readiness.
    pub async fn require_dedicated_sessions(&self) -> Result<(), DbError> {
        match session::require_own(&self.lookups).await {
            Err(error @ DbError::Config(_)) => Err(error),
            Err(error) => {
                tracing::warn!(%error, "the database cannot be reached yet; readiness fails until it can");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Starts serving HTTP on `listener`.
    pub fn serve_http(&mut self, listener: TcpListener) -> anyhow::Result<()> {
        self.serve(listener, self.platform.routes())
    }

    /// Starts serving health and metrics, for a process without an API.
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
            metrics_handle(&self.db, &self.platform, self.backlog_monitor.clone()),
        )
        .stopped_by(self.stop.clone())
        .supervised_by(self.supervisor().clone());
        let router = build_router(state, routes);
        self.count_backlog();
        let (web, stop) = (self.config.web(), self.stop.clone());
        self.tasks.spawn(async move {
            // The listener is lost with the server, so the whole process must be restarted.
            let serving = onceward_web::serve(listener, router, &web, stop.clone().cancelled_owned());
            let error = match AssertUnwindSafe(serving).catch_unwind().await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it panicked".to_owned(),
            };
            tracing::error!(error, "the HTTP server failed; stopping the process");
            stop.cancel();
        });
        Ok(())
    }

    /// Starts counting the messages on the external bus, unless already started. A process that serves metrics needs
    /// the counts; a relay needs them so that each queue is seen empty before messages are published to it.
    fn count_backlog(&mut self) {
        if let (Some(monitor), false) = (&self.backlog_monitor, std::mem::replace(&mut self.is_counting, true)) {
            let (monitor, stop) = (monitor.clone(), self.stop.clone());
            self.spawn_supervised("bus-watch", move || monitor.clone().run(stop.clone()));
        }
    }

    /// Starts every consumer, and the tasks beside them.
    pub fn run_consumers(&mut self) {
        self.message_log.listen();
        let mut context = WorkerContext::new(
            self.db.clone(),
            self.message_log.clone(),
            self.platform.schemas().clone(),
            self.platform.topology().clone(),
        );
        context.supervisor = self.supervisor().clone();
        context.unknown_for = Duration::from_secs(self.config.workers.unknown_hours.saturating_mul(3600));
        context.hand_back = self.hand_back.clone();
        context.outbound = Outbound::new(self.platform.destinations().cloned(), Some(self.lookups.clone()));
        let (outbound, supervisor, stop) = (context.outbound.clone(), self.supervisor().clone(), self.stop.clone());
        self.tasks.spawn(async move { outbound.run(&supervisor, stop).await });
        context.slots = Slots::new(self.config.workers.slots);
        context.pools = WorkerPools::new(&self.platform.pools(), &context.slots, &context.outbound);
        if !context.pools.is_empty() {
            let (pools, lookups, stop) = (context.pools.clone(), self.lookups.clone(), self.stop.clone());
            self.spawn_supervised("pools", move || pools.clone().run(lookups.clone(), stop.clone()));
        }
        for consumer in self.platform.consumers() {
            self.tasks.spawn(consumer::run(consumer.clone(), context.clone(), self.stop.clone()));
            if let Some(broker) = &self.broker {
                let landing = Landing {
                    consumer: consumer.name().to_owned(),
                    queue: consumer.queue().to_owned(),
                    ordered: consumer.is_ordered(),
                    prefetch: self.config.bus.prefetch,
                };
                self.tasks.spawn(landing.run(self.message_log.clone(), broker.clone(), self.stop.clone()));
            }
        }
        for task in self.platform.tasks() {
            let task_context = TaskContext {
                db: self.db.clone(),
                stop: self.stop.clone(),
                grace: self.config.grace(),
                supervisor: self.supervisor().clone(),
                outbound: context.outbound.clone(),
            };
            self.tasks.spawn(task.clone().supervised(task_context));
        }
    }

    /// Starts publishing messages to the external bus, if any.
    pub fn run_relay(&mut self) {
        if let Some(broker) = &self.broker {
            self.message_log.listen();
            let relay = Relay::new(
                self.message_log.clone(),
                broker.clone(),
                self.platform.topology().clone(),
                self.lookups.clone(),
                self.config.relay(),
            )
            .counting(self.platform.publish_counters());
            self.tasks.spawn(relay.run(self.stop.clone()));
            self.count_backlog();
        }
    }

    /// Starts the schedules and the removal of old data.
    pub fn run_schedules(&mut self) {
        let schedules = self.platform.schedules().to_vec();
        if !schedules.is_empty() {
            let (db, stop) = (self.db.clone(), self.stop.clone());
            self.spawn_supervised("scheduler", move || schedule::run(db.clone(), schedules.clone(), stop.clone()));
        }
        let (db, stop, retention) = (self.db.clone(), self.stop.clone(), self.config.retention());
        let every = Duration::from_secs(self.config.retention.sweep_every_s);
        let key_days = self.config.key_days();
        self.spawn_supervised("sweep", move || sweep(db.clone(), retention, key_days.clone(), every, stop.clone()));
        if let Some(broker) = &self.broker {
            let consumers = self.platform.consumers();
            let readers: HashMap<_, _> =
                consumers.map(|consumer| (consumer.queue().to_owned(), consumer.name().to_owned())).collect();
            let (message_log, broker, topology) =
                (self.message_log.clone(), broker.clone(), self.platform.topology().clone());
            let (max, stop) = (self.config.bus.dead_letters_max, self.stop.clone());
            self.spawn_supervised("dead-letter-bound", move || {
                let collector =
                    DeadLetterCollector::new(message_log.clone(), broker.clone(), topology.clone(), readers.clone());
                dead_letter_limit::run(collector, max, every, stop.clone())
            });
        }
    }

    /// Starts a task that is restarted whenever it ends before the process stops.
    fn spawn_supervised<Fut>(&mut self, name: &'static str, work: impl Fn() -> Fut + Send + Sync + 'static)
    where
        Fut: Future<Output = ()> + Send,
    {
        let (supervisor, stop) = (self.supervisor().clone(), self.stop.clone());
        self.tasks.spawn(async move {
            supervisor.keep_running(name, &stop, || work().map(Ok)).await;
        });
    }

    /// Starts the tasks of `roles`. Without the API, `listener` serves health and metrics.
    pub fn start(&mut self, roles: &[Role], listener: Option<TcpListener>) -> anyhow::Result<()> {
        let has = |role: Role| roles.contains(&role) || roles.contains(&Role::All);
        match listener {
            Some(listener) if has(Role::Api) => self.serve_http(listener)?,
            Some(listener) => self.serve_metrics(listener)?,
            None => anyhow::ensure!(
                !has(Role::Api),
                "the role api needs a listener; bind http.listen and pass it to `start`"
            ),
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

    /// Waits until the process is asked to stop, then lets work in flight finish within the grace period. Leased calls that
    /// take longer are abandoned shortly before its end, so that there is time to return their messages. Returns `true`
    /// if everything was finished or returned.
    pub async fn finished(mut self) -> bool {
        self.stop.cancelled().await;
        let grace = self.config.grace();
        let return_time = (grace / 4).min(RETURN_TIME_MAX);
        let mut clean = all_end(&mut self.tasks, grace - return_time).await;
        if !clean {
            self.hand_back.cancel();
            clean = all_end(&mut self.tasks, return_time).await;
        }
        if !clean {
            tracing::warn!("work in flight did not finish within shutdown.grace_ms; it will be repeated");
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

/// Waits until all tasks have ended, at most for `limit`. Returns whether they have.
async fn all_end(tasks: &mut JoinSet<()>, limit: Duration) -> bool {
    tokio::time::timeout(limit, async { while tasks.join_next().await.is_some() {} }).await.is_ok()
}
