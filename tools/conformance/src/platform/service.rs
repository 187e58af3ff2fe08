//! The service under test: a few queues, and handlers that do what the message requests.

use super::store;
use onceward::{
    Consumer, Event, Exchange, Failure, Handler, LeasedHandler, Queue, Received, RetryBudget, RetryPolicy, Schedule,
    Service, TenantId, Topology, Tx,
    messaging::{TransactionalConsumer, consumer::LeaseContext},
    topology::Jitter,
};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Semaphore, watch};

/// Jobs, handled in the transaction that settles them.
pub(super) const WORK: &str = "conformance.work";
/// A second consumer of every job.
pub(super) const AUDIT: &str = "conformance.audit";
/// Calls, handled under leases.
pub(super) const CALLS: &str = "conformance.calls";
/// Jobs by priority.
pub(super) const URGENT: &str = "conformance.urgent";
/// The queue to which dead letters are copied.
pub(super) const DEAD: &str = "conformance.dead";
/// A queue without a consumer: a case reads it as another program would.
pub(super) const WIRE: &str = "conformance.wire";
/// The maximum number of attempts of a failing job.
pub(super) const ATTEMPTS: u32 = 3;

const SCHEMAS: &[&str] = &[
    r#"{"$id": "conformance.job.v1", "type": "object"}"#,
    r#"{"$id": "conformance.job.v2", "type": "object"}"#,
    r#"{"$id": "conformance.call.v1", "type": "object"}"#,
    r#"{"$id": "conformance.tick.v1", "type": "object"}"#,
];
/// Publishes a tick every second, where schedules run.
const TICK: [&str; 4] = ["conformance-tick", "* * * * * *", "conformance.events:tick", "conformance.tick.v1"];

/// What the handler must do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) number: i64,
    /// The number of attempts that fail.
    pub(super) failures: u32,
    /// The handler blocks until the case releases it.
    pub(super) blocks: bool,
    /// It fails and requests a retry after an hour, which is after the end of the test run.
    pub(super) fails_for_an_hour: bool,
    /// Increases the size of the payload.
    pub(super) filler: String,
}

impl Event for Job {
    const TYPE: &'static str = "conformance.job.v1";
    const EXCHANGE: &'static str = "conformance.events";

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.job")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct JobV2(pub(super) Job);

impl Event for JobV2 {
    const TYPE: &'static str = "conformance.job.v2";
    const EXCHANGE: &'static str = Job::EXCHANGE;

    fn routing_key(&self, tenant: &TenantId) -> String {
        self.0.routing_key(tenant)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Call(pub(super) Job);

impl Event for Call {
    const TYPE: &'static str = "conformance.call.v1";
    const EXCHANGE: &'static str = "conformance.events";

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.call")
    }
}

/// Blocks and releases handlers, and reports how many have started.
#[derive(Clone)]
pub(super) struct HandlerControl {
    pub(super) gate: Arc<Semaphore>,
    pub(super) starts: Arc<watch::Sender<u64>>,
}

impl HandlerControl {
    pub(super) fn new() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), starts: Arc::new(watch::Sender::new(0)) }
    }

    /// Releases all handlers, now and later.
    pub(super) fn release_all(&self) {
        self.gate.close();
    }

    async fn run(&self, job: &Job, attempt: u32) -> Result<(), Failure> {
        self.starts.send_modify(|starts| *starts += 1);
        if job.blocks {
            // Returns when the semaphore is closed.
            let _ = self.gate.acquire().await;
        }
        if job.fails_for_an_hour {
            return Err(Failure::retry_after(Duration::from_secs(3_600), "as the message requests"));
        }
        if attempt <= job.failures {
            return Err(Failure::transient("as the message requests"));
        }
        Ok(())
    }
}

#[derive(Clone)]
struct JobHandler {
    queue: &'static str,
    control: HandlerControl,
}

impl JobHandler {
    async fn record_and_run<E>(&self, tx: &mut Tx, job: &Job, received: &Received<'_, E>) -> Result<(), Failure> {
        store::write_effect(tx, self.queue, &job.name, job.number, received).await?;
        self.control.run(job, received.attempt).await
    }
}

impl Handler for JobHandler {
    type Event = Job;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, Job>) -> Result<(), Failure> {
        self.record_and_run(tx, &received.event, received).await
    }
}

/// The handler of the next version.
struct JobV2Handler(JobHandler);

impl Handler for JobV2Handler {
    type Event = JobV2;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, JobV2>) -> Result<(), Failure> {
        self.0.record_and_run(tx, &received.event.0, received).await
    }
}

struct CallHandler(HandlerControl);

impl LeasedHandler for CallHandler {
    type Event = Call;
    type Work = String;

    async fn perform(&self, _lease: &LeaseContext, received: &Received<'_, Call>) -> Result<String, Failure> {
        self.0.run(&received.event.0, received.attempt).await?;
        Ok(format!("{} done", received.event.0.name))
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Call>, work: &String) -> Result<(), Failure> {
        Ok(store::write_effect(tx, CALLS, work, received.event.0.number, received).await?)
    }
}

/// Returns the service, or its next version, which knows `conformance.job.v2`.
pub(super) fn service(control: &HandlerControl, newer: bool) -> Service {
    let handler = |queue| JobHandler { queue, control: control.clone() };
    let mut work = transactional("work", WORK).on(handler(WORK));
    if newer {
        work = work.on(JobV2Handler(handler(WORK)));
    }
    let [name, cron, topic, event_type] = TICK;
    let calls = Consumer::leased("calls", CALLS)
        .on(CallHandler(control.clone()))
        .retry(quick_retries())
        .budget(UNLIMITED_RETRIES);
    Service::new("conformance")
        .migrations(store::MIGRATIONS)
        .schemas(SCHEMAS)
        .topology(topology())
        .schedule(Schedule::new(name, cron, topic, event_type))
        .consumer(work)
        .consumer(transactional("audit", AUDIT).on(handler(AUDIT)))
        .consumer(transactional("urgent", URGENT).on(handler(URGENT)).concurrency(1).prefetch(4))
        .consumer(calls)
}

fn transactional(name: &str, queue: &str) -> TransactionalConsumer {
    Consumer::transactional(name, queue).retry(quick_retries()).budget(UNLIMITED_RETRIES)
}

const UNLIMITED_RETRIES: RetryBudget = RetryBudget { ratio: 1.0, min_per_second: 10_000.0, window_ms: 10_000 };

fn quick_retries() -> RetryPolicy {
    RetryPolicy::exponential(ATTEMPTS).initial_ms(50).cap_ms(100).jitter(Jitter::None)
}

fn topology() -> Topology {
    let queue = |name: &str| Queue::work(name).dead_letter("conformance.dlx").delivery_limit(20);
    Topology::new()
        .exchange(Exchange::topic("conformance.events"))
        .exchange(Exchange::fanout("conformance.dlx"))
        .queue(queue(WORK))
        .queue(queue(AUDIT))
        .queue(queue(CALLS))
        .queue(queue(URGENT).max_priority(9).shards(1))
        .queue(Queue::dead_letter_store(DEAD))
        .queue(queue(WIRE))
        .bind("conformance.events", "tenant.*.job", WORK)
        .bind("conformance.events", "tenant.*.audited", WORK)
        .bind("conformance.events", "tenant.*.audited", AUDIT)
        .bind("conformance.events", "tenant.*.call", CALLS)
        .bind("conformance.events", "tenant.*.urgent", URGENT)
        .bind("conformance.events", "tenant.*.seen", WIRE)
        .bind("conformance.events", "tick", WIRE)
        .bind("conformance.dlx", "", DEAD)
}
