//! The bench service: one exchange, one queue, a handler that does nothing.

use onceward::{
    Consumer, Event, Exchange, Failure, Handler, Migration, Migrations, Queue, Received, Service, TenantId, Topology,
    Tx,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Arc,
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
pub(crate) struct BenchEvent {
    pub id: Uuid,
    pub amount_minor: String,
    pub note: String,
    #[serde(skip)]
    pub kind: PublishKind,
}

/// The keys of a published message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PublishKind {
    /// Without keys.
    #[default]
    Plain,
    /// With an ordering key.
    Ordered,
    /// With a business idempotency key, by which a repeated publish is detected.
    Deduplicated,
}

impl BenchEvent {
    pub(crate) fn new(kind: PublishKind) -> Self {
        Self { id: Uuid::now_v7(), amount_minor: "129900".into(), note: "a payment was received".into(), kind }
    }
}

impl Event for BenchEvent {
    const TYPE: &'static str = "bench.done.v1";
    const EXCHANGE: &'static str = "bench.events";

    fn routing_key(&self, _: &TenantId) -> String {
        "bench.done".to_owned()
    }

    fn ordering_key(&self) -> Option<String> {
        (self.kind == PublishKind::Ordered).then(|| self.id.to_string())
    }

    fn idempotency_key(&self) -> Option<String> {
        (self.kind == PublishKind::Deduplicated).then(|| format!("done:{}", self.id))
    }
}

/// Statistics that the handler records.
#[derive(Default)]
pub(crate) struct HandlerStats {
    pub handled: AtomicU64,
    pub last_start: Mutex<Option<Instant>>,
    pub signal: tokio::sync::Notify,
}

struct NoopHandler(Arc<HandlerStats>);

impl Handler for NoopHandler {
    type Event = BenchEvent;

    async fn handle(&self, _: &mut Tx, _: &Received<'_, BenchEvent>) -> Result<(), Failure> {
        self.0.handled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Records its start time, for the latency bench.
struct TimingHandler(Arc<HandlerStats>);

impl Handler for TimingHandler {
    type Event = BenchEvent;

    async fn handle(&self, _: &mut Tx, _: &Received<'_, BenchEvent>) -> Result<(), Failure> {
        *self.0.last_start.lock() = Some(Instant::now());
        self.0.handled.fetch_add(1, Ordering::Relaxed);
        self.0.signal.notify_one();
        Ok(())
    }
}

pub(crate) fn service(stats: &Arc<HandlerStats>, timed: bool) -> Service {
    let consumer = Consumer::transactional("bench", QUEUE).prefetch(1000);
    let consumer =
        if timed { consumer.on(TimingHandler(stats.clone())) } else { consumer.on(NoopHandler(stats.clone())) };
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
