//! PostgreSQL as the bus: the message log, its lanes and their turns.
//!
//! The queue lives in the same database as the effects, so routing happens in the publisher's
//! transaction and settling in the handler's. A message is appended to a *lane*, the unit of order:
//! (queue, tenant, priority, shard of the ordering key). A worker takes a *turn* in a lane: it locks
//! the lane, reads on from where the last turn ended, handles, and writes where this turn ended,
//! all in one transaction. Nothing is updated or deleted on the way.
//!
//! Reading order: [`append`] writes, [`cursor`] and [`lanes`] hold the pure rules of reading,
//! `queue` and `turn` apply them, [`carry`] is how a relay reads, [`wake`] spares the polling. `docs/decisions/0002` says why.

pub mod append;
pub mod carry;
pub mod compare;
pub mod cursor;
pub mod declare;
pub mod hash;
pub mod history;
pub mod land;
pub mod lanes;
mod lease;
pub mod outbox;
mod queue;
pub mod retention;
pub mod routes;
mod rows;
mod scout;
mod settle;
pub mod stats;
mod store;
mod stored;
pub mod story;
pub mod triage;
mod turn;
pub mod wake;

use async_trait::async_trait;
use onceward_db::{Db, Migration, Migrations, RequiredTable};
use onceward_transport::{Intake, Subscription, Transport, TransportError};
use std::sync::Arc;

/// The schema `onceward`.
pub const MIGRATIONS: Migrations = Migrations {
    schema: "onceward",
    steps: &[
        Migration { name: "0001_log", sql: include_str!("../migrations/0001_log.sql") },
        Migration { name: "0002_functions", sql: include_str!("../migrations/0002_functions.sql") },
        Migration { name: "0003_for_everyone", sql: include_str!("../migrations/0003_for_everyone.sql") },
        Migration { name: "0004_buses", sql: include_str!("../migrations/0004_buses.sql") },
        Migration { name: "0005_triage", sql: include_str!("../migrations/0005_triage.sql") },
        Migration { name: "0006_story", sql: include_str!("../migrations/0006_story.sql") },
        Migration { name: "0007_plans", sql: include_str!("../migrations/0007_plans.sql") },
    ],
};

/// The columns this crate relies on, for the start-up check.
pub const REQUIRED: &[RequiredTable] = &[
    RequiredTable {
        table: "onceward.outbox_messages",
        columns: &[
            "id",
            "tenant_id",
            "aggregate_type",
            "aggregate_id",
            "event_type",
            "topic",
            "ordering_key",
            "idempotency_key",
            "payload",
            "headers",
            "correlation_id",
            "causation_id",
            "created_at",
            "occurred_at",
            "attempt_count",
            "last_error",
            "next_retry_at",
            "published_at",
        ],
    },
    RequiredTable { table: "onceward.message_log", columns: &["seq", "xid", "epoch", "lane_id", "copy", "version"] },
    RequiredTable {
        table: "onceward.lane_turn",
        columns: &["lane_id", "turn", "last_seq", "open_xids", "open_floors", "careful_until"],
    },
    RequiredTable {
        table: "onceward.deferred",
        columns: &["lane_id", "queue_id", "state", "due_at", "blocks", "attempts", "lease", "message"],
    },
    RequiredTable {
        table: "onceward.dead_letters",
        columns: &[
            "event_id",
            "tenant_id",
            "queue",
            "reason",
            "attempts",
            "first_error",
            "last_error",
            "message",
            "status",
            "lane_id",
            "seq",
            "tag",
        ],
    },
    RequiredTable { table: "onceward.inbox", columns: &["consumer", "tenant_id", "idempotency_key"] },
];

/// How the bus reads; [`Default`] gives the documented values.
#[derive(Clone, Copy, Debug)]
pub struct PostgresBusConfig {
    /// How often lanes are looked through although nobody woke us.
    pub poll_ms: u64,
    /// How often this process notifies the others at most.
    pub notify_interval_ms: u64,
    /// Lanes that one turn may span.
    pub lanes_per_turn: usize,
}

impl Default for PostgresBusConfig {
    fn default() -> Self {
        Self { poll_ms: 1_000, notify_interval_ms: 10, lanes_per_turn: 64 }
    }
}

/// The bus. Cheap to clone.
#[derive(Clone)]
pub struct PostgresTransport {
    db: Db,
    lookups: Db,
    config: PostgresBusConfig,
    routes: Arc<routes::Routes>,
    wakes: Arc<wake::Wakes>,
}

impl PostgresTransport {
    /// A bus on `db`. Starts the task that notifies other processes.
    pub fn new(db: Db, config: PostgresBusConfig) -> Self {
        let wakes = wake::Wakes::start(db.clone(), config.notify_interval_ms);
        Self { routes: Arc::new(routes::Routes::new(db.clone())), wakes, lookups: db.clone(), db, config }
    }

    /// The same bus, whose turns are transactions of `db`: one that can publish, for instance.
    pub fn with_db(mut self, db: Db) -> Self {
        self.db = db;
        self
    }

    /// Listens for other processes' notifications from now on; a process that only publishes need not.
    pub fn listen(&self) {
        self.wakes.listen();
    }

    /// The routes as declared in the database.
    pub fn routes(&self) -> &Arc<routes::Routes> {
        &self.routes
    }

    async fn open_queue(&self, subscription: Subscription) -> Result<queue::LaneQueue, TransportError> {
        let queue = self.routes.queue(&subscription.queue).await?;
        let (db, lookups, wakes) = (self.db.clone(), self.lookups.clone(), self.wakes.clone());
        Ok(queue::LaneQueue::open(db, lookups, self.config, wakes, queue, subscription))
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn wakes(&self) -> &Arc<wake::Wakes> {
        &self.wakes
    }
}

#[async_trait]
impl Transport for PostgresTransport {
    async fn open(&self, subscription: Subscription) -> Result<Box<dyn Intake>, TransportError> {
        Ok(Box::new(self.open_queue(subscription).await?))
    }
}
