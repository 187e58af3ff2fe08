//! The service that is measured: one exchange, one queue, a handler that does nothing.

use onceward::{
    Consumer, Event, Exchange, Failure, Handler, Migration, Migrations, Queue, Received, Service, TenantId, Topology,
    Tx,
};
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use uuid::Uuid;

pub(crate) const QUEUE: &str = "bench.work.v1";

const SCHEMA: &str = r#"{
  "$id": "bench.done.v1",
  "type": "object",
  "required": ["id", "amountMinor", "note"],
  "properties": {
    "id": { "type": "string", "format": "uuid" },
    "amountMinor": { "type": "string", "pattern": "^-?[0-9]+$" },
    "note": { "type": "string", "maxLength": 200 }
  },
  "additionalProperties": false
}"#;

/// A message of ordinary size.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Done {
    pub id: Uuid,
    pub amount_minor: String,
    pub note: String,
    #[serde(skip)]
    pub kind: Kind,
}

/// What is asked of a publish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message of its own, without keys.
    #[default]
    Plain,
    /// With an ordering key.
    Ordered,
    /// With an idempotency key of the business, by which a repeated publish is recognised.
    Deduplicated,
}

impl Done {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { id: Uuid::now_v7(), amount_minor: "129900".into(), note: "a payment was received".into(), kind }
    }
}

impl Event for Done {
    const TYPE: &'static str = "bench.done.v1";

    fn topic(&self, _: &TenantId) -> String {
        "bench.events:bench.done".into()
    }

    fn ordering_key(&self) -> Option<String> {
        (self.kind == Kind::Ordered).then(|| self.id.to_string())
    }

    fn idempotency_key(&self) -> Option<String> {
        (self.kind == Kind::Deduplicated).then(|| format!("done:{}", self.id))
    }
}

/// What the handler saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub handled: AtomicU64,
    pub last_start: Mutex<Option<Instant>>,
    pub signal: tokio::sync::Notify,
}

struct Nothing(Arc<Seen>);

impl Handler for Nothing {
    type Event = Done;

    async fn handle(&self, _: &mut Tx, _: &Received<'_, Done>) -> Result<(), Failure> {
        self.0.handled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Notes when it starts, for the latency bench.
struct Timed(Arc<Seen>);

impl Handler for Timed {
    type Event = Done;

    async fn handle(&self, _: &mut Tx, _: &Received<'_, Done>) -> Result<(), Failure> {
        *self.0.last_start.lock().expect("no panic while held") = Some(Instant::now());
        self.0.handled.fetch_add(1, Ordering::Relaxed);
        self.0.signal.notify_one();
        Ok(())
    }
}

pub(crate) fn service(seen: &Arc<Seen>, timed: bool) -> Service {
    let consumer = Consumer::transactional("bench", QUEUE).prefetch(1000);
    let consumer = if timed { consumer.on(Timed(seen.clone())) } else { consumer.on(Nothing(seen.clone())) };
    Service::new("bench")
        .migrations(Migrations {
            schema: "bench",
            steps: &[Migration { name: "0001_bench", sql: include_str!("../migrations/0001_bench.sql") }],
        })
        .migrations(onceward::audit::MIGRATIONS)
        .schemas(&[SCHEMA])
        .topology(Topology::new().exchange(Exchange::topic("bench.events")).queue(Queue::work(QUEUE)).bind(
            "bench.events",
            "bench.*",
            QUEUE,
        ))
        .consumer(consumer)
}
