//! A platform on the bus under test, and queries of its state.

use super::{
    PlatformHarness,
    service::{Call, HandlerControl, Job, service},
    store::{self, DeadLetterRecord, EffectRow},
};
use onceward::{
    CorrelationId, Envelope, Event, IdempotencyKey, NewMessage, Platform, Scope, TenantId,
    broker::{Broker, BrokerError, Delivery, Parcel, PublishOutcome, wire},
    db::Db,
    envelope::ENVELOPE_SCHEMA_VERSION,
    outbox,
    runtime::ProcessRuntime,
};
use onceward_testkit::{PATIENCE, TestPlatform, eventually};
use serde_json::{Map, Value};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const PAUSE: Duration = Duration::from_millis(20);

pub(super) struct PlatformFixture {
    pub(super) platform: TestPlatform,
    pub(super) owner: Client,
    pub(super) control: HandlerControl,
}

impl PlatformFixture {
    /// Creates the platform; nothing runs yet.
    pub(super) async fn new(harness: &dyn PlatformHarness) -> Self {
        let control = HandlerControl::new();
        let platform = TestPlatform::on_bus(vec![service(&control, false)], harness.bus_url().as_deref()).await;
        let owner = platform.database().owner().await;
        if let Some(sql) = harness.fault_sql() {
            owner.batch_execute(sql).await.expect("the fault can be installed");
        }
        Self { platform, owner, control }
    }

    pub(super) async fn running(harness: &dyn PlatformHarness) -> Self {
        let mut fixture = Self::new(harness).await;
        fixture.run();
        fixture
    }

    pub(super) fn run(&mut self) {
        self.platform.run_relay();
        self.platform.run_consumers();
    }

    /// Starts a second process.
    pub(super) fn start_instance(&self, newer: bool) -> RunningInstance {
        let stop = CancellationToken::new();
        let platform = Platform::assemble(vec![service(&self.control, newer)]).expect("the service is valid");
        let config = self.platform.config().clone();
        let mut running = ProcessRuntime::new(platform, config, stop.clone()).expect("the platform can be created");
        running.run_relay();
        running.run_consumers();
        RunningInstance { running, stop }
    }

    /// Starts a second process that only publishes the ticks of schedules.
    pub(super) fn start_scheduler(&self) -> RunningInstance {
        let (mut running, stop) = self.platform.another_instance();
        running.run_schedules();
        RunningInstance { running, stop }
    }

    pub(super) fn db(&self) -> &Db {
        self.platform.db()
    }

    /// Publishes in one transaction.
    pub(super) async fn publish(&self, tenant: &str, messages: impl IntoIterator<Item = NewMessage>) {
        let mut tx = self.db().begin(tenant_scope(tenant)).await.expect("a connection");
        for message in messages {
            outbox::send(&mut tx, message).await.expect("the message is accepted");
        }
        tx.commit().await.expect("the transaction commits");
    }

    /// Waits until a queue has `count` effects.
    pub(super) async fn effects(&self, queue: &str, count: usize) -> Vec<EffectRow> {
        eventually(&format!("{count} effects of {queue}"), || async {
            let effects = store::effects(&self.owner, queue).await;
            (effects.len() >= count).then_some(effects)
        })
        .await
    }

    /// Like [`PlatformFixture::effects`], once no queue has work left: excess effects have occurred by then.
    pub(super) async fn final_effects(&self, queue: &str, count: usize) -> Vec<EffectRow> {
        self.effects(queue, count).await;
        self.wait_until_drained().await;
        store::effects(&self.owner, queue).await
    }

    /// Waits until no message waits in the database. On an external bus messages may still be in flight.
    pub(super) async fn wait_until_drained(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pending = store::pending_work(&self.owner).await;
            if pending.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still pending: {pending}");
            sleep(PAUSE).await;
        }
    }

    /// Waits until `count` dead letters exist.
    pub(super) async fn wait_for_dead_letters(&self, count: usize) -> Vec<DeadLetterRecord> {
        eventually(&format!("{count} dead letters"), || async {
            let dead = store::dead_letters(&self.owner).await;
            (dead.len() >= count).then_some(dead)
        })
        .await
    }

    /// Waits until handlers have been started this many times.
    pub(super) async fn wait_for_starts(&self, times: u64) {
        let mut starts = self.control.starts.subscribe();
        let reached = timeout(PATIENCE, starts.wait_for(|starts| *starts >= times)).await;
        reached.expect("handlers start in time").expect("the service is running");
    }

    /// Returns the external bus with its topology declared, as another program would use it.
    pub(super) async fn broker(&self) -> Arc<dyn Broker> {
        let broker = self.platform.broker();
        // The relay declares concurrently, so the first calls may fail while the server is busy with it.
        eventually("the topology is declared", || async {
            match broker.declare().await {
                Ok(_) => Some(()),
                Err(BrokerError::Unavailable(_)) => None,
                Err(error) => panic!("the topology cannot be declared: {error}"),
            }
        })
        .await;
        broker
    }

    /// Stops it; all work in flight must be finished or returned. Returns the values that keep the database alive.
    pub(super) async fn stop(self) -> (Client, onceward_testkit::TestDb) {
        let (clean, database) = self.platform.stop().await;
        assert!(clean, "work in flight was neither finished nor returned");
        (self.owner, database)
    }
}

/// An additional process.
pub(super) struct RunningInstance {
    running: ProcessRuntime,
    stop: CancellationToken,
}

impl RunningInstance {
    pub(super) async fn stop(self) {
        self.stop.cancel();
        assert!(self.running.finished().await, "work in flight was neither finished nor returned");
    }
}

pub(super) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a valid tenant")
}

pub(super) fn tenant_scope(name: &str) -> Scope {
    Scope::for_tenant(tenant(name))
}

pub(super) fn job(name: &str) -> Job {
    Job { name: name.to_owned(), ..Job::default() }
}

/// Creates a message with a job of "acme".
pub(super) fn message(job: &Job) -> NewMessage {
    NewMessage::from_event(job, &tenant("acme")).expect("a job can be serialized")
}

pub(super) fn call(job: Job) -> NewMessage {
    NewMessage::from_event(&Call(job), &tenant("acme")).expect("a call can be serialized")
}

/// Like [`message`], with another last word in the routing key.
pub(super) fn message_to(job: &Job, last_word: &str) -> NewMessage {
    NewMessage { topic: format!("conformance.events:tenant.acme.{last_word}"), ..message(job) }
}

/// Creates a job as an external bus carries it.
pub(super) fn parcel(job: &Job, idempotency_key: &str, ordering_key: Option<&str>) -> Parcel {
    let tenant_id = tenant("acme");
    let envelope = Envelope {
        event_id: Uuid::now_v7(),
        event_type: Job::TYPE.parse().expect("an event type"),
        schema_version: ENVELOPE_SCHEMA_VERSION,
        tenant_id: tenant_id.clone(),
        correlation_id: CorrelationId::generate(),
        causation_id: None,
        idempotency_key: IdempotencyKey::new(idempotency_key).expect("a valid key"),
        actor: None,
        occurred_at: "2026-11-05T10:00:00Z".parse().expect("a time"),
        extensions: Map::new(),
        payload: serde_json::to_value(job).unwrap_or(Value::Null).into(),
        trace: None,
    };
    let delivery = Delivery {
        envelope,
        topic: job.topic(&tenant_id).to_string(),
        ordering_key: ordering_key.map(str::to_owned),
        priority: 0,
        queue_tenant: tenant_id.clone(),
        attempt: 1,
        published_at: "2026-11-05T10:00:00Z".parse().expect("a time"),
        first_error: None,
        first_failed_at: None,
        unknown_since: None,
    };
    wire::pack(&delivery, job.topic(&tenant_id).into(), true).expect("a job can be packed")
}

/// Publishes directly to the bus, bypassing the outbox.
pub(super) async fn publish_raw(broker: &dyn Broker, parcels: Vec<Parcel>) {
    let count = parcels.len();
    let verdicts = timeout(PATIENCE, broker.publish(parcels)).await.expect("the broker responds in time");
    assert_eq!(verdicts.expect("the broker responds"), vec![PublishOutcome::Accepted; count]);
}

/// The delay of a delayed message.
pub(super) const DELAY: Duration = Duration::from_millis(700);
