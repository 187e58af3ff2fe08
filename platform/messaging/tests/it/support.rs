//! A service for tests: one exchange, a queue, a table of effects, and handlers that the test drives.

use futures_util::future::BoxFuture;
use onceward::{
    Consumer, Event, Exchange, Failure, Handler, Migration, Migrations, NewMessage, Platform, Queue, Received,
    RetryBudget, RetryPolicy, Scope, Service, TenantId, Topology, Tx, db::Db, messaging::TransactionalConsumer, outbox,
    runtime::ProcessRuntime, topology::Jitter,
};
use onceward_testkit::{PATIENCE, TestPlatform, eventually};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Instant};
use tokio::sync::mpsc;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

pub const QUEUE: &str = "probe.work";

const MIGRATIONS: Migrations = Migrations {
    schema: "probe",
    steps: &[Migration {
        name: "0001_effect",
        sql: "CREATE TABLE probe.effect (
                  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                  tenant_id text   NOT NULL,
                  name      text   NOT NULL,
                  number    bigint NOT NULL,
                  attempt   int    NOT NULL);
              SELECT onceward_meta.protect('probe.effect');
              CREATE TABLE probe.counter (
                  tenant_id text   NOT NULL,
                  key       text   NOT NULL,
                  n         bigint NOT NULL,
                  PRIMARY KEY (tenant_id, key));
              SELECT onceward_meta.protect('probe.counter')",
    }],
};

const SCHEMAS: &[&str] = &[
    r#"{"$id": "probe.job.v1", "type": "object", "required": ["name"], "additionalProperties": false,
        "properties": {"name": {"type": "string"}, "number": {"type": "integer"}}}"#,
    r#"{"$id": "probe.job.v2", "type": "object", "required": ["name"]}"#,
    r#"{"$id": "probe.tick.v1", "type": "object", "required": ["schedule", "scheduledFor"]}"#,
];

/// The payload of the tests' messages.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Job {
    pub name: String,
    #[serde(default)]
    pub number: i64,
}

impl Event for Job {
    const TYPE: &'static str = "probe.job.v1";
    const EXCHANGE: &'static str = "probe.events";

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.job")
    }
}

/// The same payload, one version later.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobV2(pub Job);

impl Event for JobV2 {
    const TYPE: &'static str = "probe.job.v2";
    const EXCHANGE: &'static str = Job::EXCHANGE;

    fn routing_key(&self, tenant: &TenantId) -> String {
        self.0.routing_key(tenant)
    }
}

/// A call of a handler, as reported to the test.
#[derive(Clone, Debug)]
pub struct HandlerCall {
    pub tenant: String,
    pub name: String,
    pub number: i64,
    pub attempt: u32,
    pub at: Instant,
}

impl HandlerCall {
    pub fn of<E>(received: &Received<'_, E>, job: &Job) -> Self {
        Self {
            tenant: received.envelope.tenant_id.to_string(),
            name: job.name.clone(),
            number: job.number,
            attempt: received.attempt,
            at: Instant::now(),
        }
    }
}

/// The calls of a handler, in order.
pub struct Calls(mpsc::UnboundedReceiver<HandlerCall>);

impl Calls {
    pub fn channel() -> (mpsc::UnboundedSender<HandlerCall>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self(receiver))
    }

    /// Waits for the next call.
    pub async fn next(&mut self) -> HandlerCall {
        let next = tokio::time::timeout(PATIENCE, self.0.recv()).await;
        next.expect("a handler is called in time").expect("the handler is still there")
    }

    /// Returns the names of the next `count` calls.
    pub async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            names.push(self.next().await.name);
        }
        names
    }

    /// Returns the number of calls since the last check.
    pub fn drain(&mut self) -> usize {
        std::iter::from_fn(|| self.0.try_recv().ok()).count()
    }
}

type Outcome<'a> = BoxFuture<'a, Result<(), Failure>>;
type Act = Arc<dyn for<'a> Fn(&'a mut Tx, HandlerCall) -> Outcome<'a> + Send + Sync>;

/// Writes an effect, reports the call to the test, and runs the test's action.
#[derive(Clone)]
pub struct Probe {
    act: Act,
    calls: mpsc::UnboundedSender<HandlerCall>,
}

impl Probe {
    /// Creates a handler that runs `act` after its effect.
    pub fn new(act: impl for<'a> Fn(&'a mut Tx, HandlerCall) -> Outcome<'a> + Send + Sync + 'static) -> (Self, Calls) {
        let (sender, calls) = Calls::channel();
        let probe = Self { act: Arc::new(act), calls: sender };
        (probe, calls)
    }

    /// Creates a handler that succeeds.
    pub fn good() -> (Self, Calls) {
        Self::new(|_, _| Box::pin(async { Ok(()) }))
    }

    async fn run(&self, tx: &mut Tx, seen: HandlerCall) -> Result<(), Failure> {
        write_effect(tx, &seen).await?;
        let _ = self.calls.send(seen.clone());
        (self.act)(tx, seen).await
    }
}

impl Handler for Probe {
    type Event = Job;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, Job>) -> Result<(), Failure> {
        self.run(tx, HandlerCall::of(received, &received.event)).await
    }
}

/// The same handler for the newer version.
pub struct ProbeV2(pub Probe);

impl Handler for ProbeV2 {
    type Event = JobV2;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, JobV2>) -> Result<(), Failure> {
        self.0.run(tx, HandlerCall::of(received, &received.event.0)).await
    }
}

pub async fn write_effect(tx: &Tx, seen: &HandlerCall) -> Result<(), Failure> {
    let attempt = i32::try_from(seen.attempt).unwrap_or(i32::MAX);
    tx.execute(
        "INSERT INTO probe.effect (tenant_id, name, number, attempt) VALUES ($1, $2, $3, $4)",
        &[&seen.tenant, &seen.name, &seen.number, &attempt],
    )
    .await?;
    Ok(())
}

/// The usual queue: one lane per tenant, so that turns contain what the test expects.
pub fn one_lane() -> Queue {
    Queue::work(QUEUE).dead_letter("probe.dlq").shards(1)
}

/// A consumer of the queue that retries quickly, three attempts in all.
pub fn consumer(probe: Probe) -> TransactionalConsumer {
    Consumer::transactional("probe", QUEUE).on(probe).retry(quick(3)).budget(GENEROUS)
}

/// Allows any number of retries: these tests are about other rules.
pub const GENEROUS: RetryBudget = RetryBudget { ratio: 1.0, min_per_second: 10_000.0, window_ms: 10_000 };

pub fn quick(attempts: u32) -> RetryPolicy {
    RetryPolicy::exponential(attempts).initial_ms(20).cap_ms(100).jitter(Jitter::None)
}

pub fn service(queue: Queue, consumer: impl Into<Consumer>) -> Service {
    bare_service(queue).consumer(consumer)
}

/// The service without a consumer for its queue.
pub fn bare_service(queue: Queue) -> Service {
    Service::new("probe").migrations(MIGRATIONS).schemas(SCHEMAS).topology(topology(queue))
}

pub fn topology(queue: Queue) -> Topology {
    let name = queue.name.clone();
    Topology::new()
        .exchange(Exchange::topic("probe.events"))
        .exchange(Exchange::fanout("probe.dlq"))
        .queue(queue)
        .queue(Queue::dead_letter_store("probe.dead"))
        .bind("probe.events", "tenant.*.job", name)
        .bind("probe.dlq", "", "probe.dead")
}

/// Creates a platform with this queue and consumer. Nothing runs yet.
pub async fn platform(queue: Queue, consumer: impl Into<Consumer>) -> TestPlatform {
    TestPlatform::new(vec![service(queue, consumer)]).await
}

/// Creates a platform and runs its consumers.
pub async fn running(queue: Queue, consumer: impl Into<Consumer>) -> TestPlatform {
    let mut platform = platform(queue, consumer).await;
    platform.run_consumers();
    platform
}

/// Starts another instance on the platform's database, with its own services.
pub fn instance_with(platform: &TestPlatform, services: Vec<Service>) -> (ProcessRuntime, CancellationToken) {
    let stop = CancellationToken::new();
    let assembled = Platform::assemble(services).expect("the services are assembled");
    let running = ProcessRuntime::new(assembled, platform.config().clone(), stop.clone()).expect("the instance starts");
    (running, stop)
}

/// A job of `tenant`.
pub fn job(tenant: &str, name: &str) -> NewMessage {
    numbered(tenant, name, 0)
}

pub fn numbered(tenant: &str, name: &str, number: i64) -> NewMessage {
    let payload = serde_json::json!({"name": name, "number": number});
    NewMessage::new(Job::TYPE, format!("probe.events:tenant.{tenant}.job"), payload)
}

pub fn scope(tenant: &str) -> Scope {
    Scope::for_tenant(TenantId::new(tenant).expect("a valid tenant"))
}

/// Publishes the messages in one transaction.
pub async fn publish(db: &Db, tenant: &str, messages: impl IntoIterator<Item = NewMessage>) {
    let mut tx = db.begin(scope(tenant)).await.expect("a connection");
    for message in messages {
        outbox::send(&mut tx, message).await.expect("the message is accepted");
    }
    tx.commit().await.expect("it commits");
}

/// Publishes jobs with these names in one transaction.
pub async fn publish_names(db: &Db, tenant: &str, names: &[&str]) {
    publish(db, tenant, names.iter().map(|name| job(tenant, name))).await;
}

/// Returns the names of all committed effects, in the order in which they were written.
pub async fn effects(owner: &Client) -> Vec<String> {
    let rows = owner.query("SELECT name FROM probe.effect ORDER BY id", &[]).await;
    rows.expect("the owner reads everything").iter().map(|row| row.get(0)).collect()
}

/// Waits until `count` effects are committed and returns their names.
pub async fn effects_reach(owner: &Client, count: usize) -> Vec<String> {
    eventually(&format!("{count} effects"), || async {
        let effects = effects(owner).await;
        (effects.len() >= count).then_some(effects)
    })
    .await
}

pub async fn count(owner: &Client, sql: &str) -> i64 {
    owner.query_one(sql, &[]).await.expect("a count").get(0)
}

/// Waits until everything is handled: no new messages, none deferred.
pub async fn drained(owner: &Client) {
    eventually("the queue is drained", || async {
        let waiting = count(
            owner,
            "SELECT (SELECT sum(depth) FROM onceward.queue_stats(1000))::bigint + (SELECT count(*) FROM onceward.deferred)",
        )
        .await;
        (waiting == 0).then_some(())
    })
    .await;
}

/// A dead letter.
#[derive(Debug)]
pub struct DeadLetter {
    pub name: Option<String>,
    pub tenant: String,
    pub reason: String,
    pub attempts: i32,
    pub first_error: Option<String>,
    pub last_error: Option<String>,
    pub message: serde_json::Value,
}

/// Waits until there are `count` dead letters and returns them.
pub async fn dead_letters(owner: &Client, count: usize) -> Vec<DeadLetter> {
    eventually(&format!("{count} dead letters"), || async {
        let sql = "SELECT message->'payload'->>'name', tenant_id, reason, attempts, first_error, last_error, message
                   FROM onceward.dead_letters ORDER BY id";
        let rows = owner.query(sql, &[]).await.expect("the owner reads everything");
        let letters = rows.iter().map(|row| DeadLetter {
            name: row.get(0),
            tenant: row.get(1),
            reason: row.get(2),
            attempts: row.get(3),
            first_error: row.get(4),
            last_error: row.get(5),
            message: row.get(6),
        });
        (rows.len() >= count).then(|| letters.collect())
    })
    .await
}

/// Publishes from SQL, as a team in another language would.
pub async fn enqueue(owner: &Client, tenant: &str, event_type: &str, payload: &serde_json::Value) {
    let topic = format!("probe.events:tenant.{tenant}.job");
    owner
        .execute("SELECT onceward.enqueue($1, $2, $3, $4)", &[&tenant, &topic, &event_type, payload])
        .await
        .expect("it is accepted");
}
