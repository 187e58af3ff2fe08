//! PostgreSQL as the bus: the message log, its lanes and their turns.
//!
//! The queue is in the same database as the effects, so routing happens in the publisher's transaction and settling in
//! the handler's. A message is appended to a *lane*, the unit of order: (queue, tenant, priority, shard of the ordering
//! key). A worker takes a *turn* in a lane: it locks the lane, reads from where the last turn ended, handles the
//! messages, and records where this turn ended, all in one transaction. Nothing is updated or deleted on the way.
//!
//! Reading order: [`append`] writes, [`cursor`] and [`lane_scheduler`] hold the pure rules of reading, [`QueueReader`]
//! and [`QueueTurn`] apply them, [`outbox_reader`] is how a relay reads, [`wake_hub`] avoids waiting for the next poll.
//! `docs/decisions/0002` explains why.

pub mod append;
pub mod compare;
pub mod controls;
pub mod cursor;
pub mod declare;
mod error;
pub mod hash;
mod isolation;
pub mod land;
pub mod lane_scheduler;
mod lease;
pub mod outbox;
pub mod outbox_reader;
pub mod pools;
pub mod positions;
mod queue_reader;
mod queue_state;
pub mod retention;
pub mod routes;
pub mod search_index;
mod settle;
pub mod stats;
mod stored_message;
pub mod story;
pub mod triage;
mod turn;
mod turn_message;
mod turn_rows;
pub mod unrouted;
pub mod wake_hub;
mod work_poller;

pub use error::BusError;
pub use lease::{LeaseId, LeasedMessage};
pub use queue_reader::{QueueReader, Subscription};
pub use turn::QueueTurn;

use onceward_db::{Db, Migration, Migrations, RequiredTable};
use onceward_supervisor::Supervisor;
use std::sync::Arc;

/// One step, by the name of its file.
macro_rules! step {
    ($name:literal) => {
        Migration { name: $name, sql: include_str!(concat!("../migrations/", $name, ".sql")) }
    };
}

/// The migrations of the schema `onceward`: the tables, then one file per verb.
pub const MIGRATIONS: Migrations = Migrations {
    schema: "onceward",
    steps: &[
        step!("0001_tables"),
        step!("0002_bus_tables"),
        step!("0003_operator_tables"),
        step!("0004_lanes"),
        step!("0005_append"),
        step!("0006_enqueue"),
        step!("0007_take_turns"),
        step!("0008_advance"),
        step!("0009_settle"),
        step!("0010_lease"),
        step!("0011_relay"),
        step!("0012_land"),
        step!("0013_figures"),
        step!("0014_retention"),
        step!("0015_schedules"),
        step!("0016_dead_letters"),
        step!("0017_requeue"),
        step!("0018_quarantine"),
        step!("0019_held_keys"),
        step!("0020_cancel"),
        step!("0021_story"),
        step!("0022_controls"),
        step!("0023_pools"),
        step!("0024_grants"),
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

/// How the bus reads. [`Default`] returns the documented values.
#[derive(Clone, Copy, Debug)]
pub struct MessageLogConfig {
    /// How often lanes are checked without a wake-up.
    pub poll_ms: u64,
    /// The minimum interval between this process's notifications to other processes.
    pub notify_interval_ms: u64,
    /// The maximum number of lanes in one turn.
    pub lanes_per_turn: usize,
}

impl Default for MessageLogConfig {
    fn default() -> Self {
        Self { poll_ms: 1_000, notify_interval_ms: 10, lanes_per_turn: 64 }
    }
}

/// The bus. Cheap to clone.
#[derive(Clone)]
pub struct MessageLog {
    db: Db,
    lookups: Db,
    config: MessageLogConfig,
    router: Arc<routes::LaneRouter>,
    wake_hub: Arc<wake_hub::WakeHub>,
    supervisor: Supervisor,
}

impl MessageLog {
    /// Creates a bus on `db`. Starts the task that notifies other processes.
    pub fn new(db: Db, config: MessageLogConfig) -> Self {
        let supervisor = Supervisor::new();
        let wake_hub = wake_hub::WakeHub::start(db.clone(), config.notify_interval_ms, supervisor.clone());
        let router = Arc::new(routes::LaneRouter::new(db.clone()));
        Self { router, wake_hub, lookups: db.clone(), db, config, supervisor }
    }

    /// The supervisor of this bus's tasks and of everything that reads from it.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Returns the same bus with turns as transactions of `db`: one that can publish, for instance.
    pub fn with_db(mut self, db: Db) -> Self {
        self.db = db;
        self
    }

    /// Sets which event types need no handler: no warning is logged for messages of these types that no queue is bound
    /// to.
    pub fn expect_unrouted(&self, is_expected: impl Fn(&str) -> bool + Send + Sync + 'static) {
        self.router.unrouted().expect(is_expected);
    }

    /// Starts listening for other processes' notifications. A process that only publishes need not call this.
    pub fn listen(&self) {
        self.wake_hub.listen();
    }

    /// Maps topics to lanes, as declared in the database.
    pub fn router(&self) -> &Arc<routes::LaneRouter> {
        &self.router
    }

    /// Opens a queue for a consumer. Fails if the queue is not declared.
    pub async fn open(&self, subscription: Subscription) -> Result<QueueReader, BusError> {
        let queue = self.router.queue(&subscription.queue).await?;
        // Before the reader exists, so that it never reads a queue that is paused.
        self.wake_hub.load_controls().await?;
        Ok(QueueReader::open(self, queue, subscription))
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn wake_hub(&self) -> &Arc<wake_hub::WakeHub> {
        &self.wake_hub
    }
}
