//! The service of the cases: a few queues, and handlers that do what the message says.

use super::store;
use onceward::{
    Consumer, Event, Exchange, Failure, Handler, LeasedHandler, Queue, Received, RetryBudget, RetryPolicy, Service,
    TenantId, Topology, Tx, messaging::consumer::LeaseContext, topology::Jitter,
};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Semaphore, watch};

/// Jobs, handled in the transaction that settles them.
pub(super) const WORK: &str = "conformance.work";
/// A second look at every job.
pub(super) const AUDIT: &str = "conformance.audit";
/// Calls, handled under leases.
pub(super) const CALLS: &str = "conformance.calls";
/// Jobs by their urgency.
pub(super) const URGENT: &str = "conformance.urgent";
/// Where dead letters are copied to.
pub(super) const DEAD: &str = "conformance.dead";
/// How often a failing job is tried.
pub(super) const ATTEMPTS: u32 = 3;

const SCHEMAS: &[&str] = &[
    r#"{"$id": "conformance.job.v1", "type": "object"}"#,
    r#"{"$id": "conformance.job.v2", "type": "object"}"#,
    r#"{"$id": "conformance.call.v1", "type": "object"}"#,
];

/// What a handler is to do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) number: i64,
    /// So many attempts fail.
    pub(super) failures: u32,
    /// Waits until the case lets it go on.
    pub(super) held: bool,
    /// Is to be tried again when no case runs any more.
    pub(super) much_later: bool,
    /// Makes it large.
    pub(super) filler: String,
}

impl Event for Job {
    const TYPE: &'static str = "conformance.job.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("conformance.events:tenant.{tenant}.job")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct JobV2(pub(super) Job);

impl Event for JobV2 {
    const TYPE: &'static str = "conformance.job.v2";

    fn topic(&self, tenant: &TenantId) -> String {
        self.0.topic(tenant)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Call(pub(super) Job);

impl Event for Call {
    const TYPE: &'static str = "conformance.call.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("conformance.events:tenant.{tenant}.call")
    }
}

/// How a case holds handlers, and sees that one has begun.
#[derive(Clone)]
pub(super) struct Reins {
    pub(super) gate: Arc<Semaphore>,
    pub(super) begun: Arc<watch::Sender<u64>>,
}

impl Reins {
    pub(super) fn new() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), begun: Arc::new(watch::Sender::new(0)) }
    }

    /// Lets everything go on, now and later.
    pub(super) fn let_go(&self) {
        self.gate.close();
    }

    async fn obey(&self, job: &Job, attempt: u32) -> Result<(), Failure> {
        self.begun.send_modify(|begun| *begun += 1);
        if job.held {
            // Ends with the semaphore.
            let _ = self.gate.acquire().await;
        }
        if job.much_later {
            return Err(Failure::retry_after(Duration::from_secs(3_600), "as the message says"));
        }
        if attempt <= job.failures {
            return Err(Failure::transient("as the message says"));
        }
        Ok(())
    }
}

#[derive(Clone)]
struct Worker {
    queue: &'static str,
    reins: Reins,
}

impl Worker {
    async fn work<E>(&self, tx: &mut Tx, job: &Job, received: &Received<'_, E>) -> Result<(), Failure> {
        store::write_effect(tx, self.queue, &job.name, job.number, received).await?;
        self.reins.obey(job, received.attempt).await
    }
}

impl Handler for Worker {
    type Event = Job;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, Job>) -> Result<(), Failure> {
        self.work(tx, &received.event, received).await
    }
}

/// The same for the next version.
struct NewerWorker(Worker);

impl Handler for NewerWorker {
    type Event = JobV2;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, JobV2>) -> Result<(), Failure> {
        self.0.work(tx, &received.event.0, received).await
    }
}

struct Caller(Reins);

impl LeasedHandler for Caller {
    type Event = Call;
    type Work = String;

    async fn perform(&self, _lease: &LeaseContext, received: &Received<'_, Call>) -> Result<String, Failure> {
        self.0.obey(&received.event.0, received.attempt).await?;
        Ok(format!("{} done", received.event.0.name))
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Call>, work: String) -> Result<(), Failure> {
        Ok(store::write_effect(tx, CALLS, &work, received.event.0.number, received).await?)
    }
}

/// The service, or its next version, which knows `conformance.job.v2`.
pub(super) fn service(reins: &Reins, newer: bool) -> Service {
    let worker = |queue| Worker { queue, reins: reins.clone() };
    let mut work = transactional("work", WORK).on(worker(WORK));
    if newer {
        work = work.on(NewerWorker(worker(WORK)));
    }
    let calls = Consumer::leased("calls", CALLS).on_leased(Caller(reins.clone())).retry(quick()).budget(GENEROUS);
    Service::new("conformance")
        .migrations(store::MIGRATIONS)
        .schemas(SCHEMAS)
        .topology(topology())
        .consumer(work)
        .consumer(transactional("audit", AUDIT).on(worker(AUDIT)))
        .consumer(transactional("urgent", URGENT).on(worker(URGENT)).concurrency(1).prefetch(4))
        .consumer(calls)
}

fn transactional(name: &str, queue: &str) -> Consumer {
    Consumer::transactional(name, queue).retry(quick()).budget(GENEROUS)
}

const GENEROUS: RetryBudget = RetryBudget { ratio: 1.0, min_per_second: 10_000.0, window_ms: 10_000 };

fn quick() -> RetryPolicy {
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
        .bind("conformance.events", "tenant.*.job", WORK)
        .bind("conformance.events", "tenant.*.audited", WORK)
        .bind("conformance.events", "tenant.*.audited", AUDIT)
        .bind("conformance.events", "tenant.*.call", CALLS)
        .bind("conformance.events", "tenant.*.urgent", URGENT)
        .bind("conformance.dlx", "", DEAD)
}
