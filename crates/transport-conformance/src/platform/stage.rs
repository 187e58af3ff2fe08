//! A platform on the bus of the case, and what can be seen of it.

use super::{
    PlatformLab,
    service::{Call, Job, Reins, service},
    store::{self, Dead, Effect},
};
use onceward::{
    CorrelationId, Envelope, Event, IdempotencyKey, NewMessage, Platform, Scope, TenantId,
    db::Db,
    envelope::ENVELOPE_SCHEMA_VERSION,
    outbox,
    runtime::Running,
    transport::{Broker, BrokerError, Delivery, Parcel, Verdict, wire},
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

pub(super) struct Stage {
    pub(super) platform: TestPlatform,
    pub(super) owner: Client,
    pub(super) reins: Reins,
}

impl Stage {
    /// Everything is there, and nothing runs.
    pub(super) async fn new(lab: &dyn PlatformLab) -> Self {
        let reins = Reins::new();
        let platform = TestPlatform::on_bus(vec![service(&reins, false)], lab.bus_url().as_deref()).await;
        let owner = platform.database().owner().await;
        Self { platform, owner, reins }
    }

    pub(super) async fn running(lab: &dyn PlatformLab) -> Self {
        let mut stage = Self::new(lab).await;
        stage.run();
        stage
    }

    pub(super) fn run(&mut self) {
        self.platform.run_relay();
        self.platform.run_consumers();
    }

    /// A second process, running.
    pub(super) fn another(&self, newer: bool) -> Instance {
        let stop = CancellationToken::new();
        let platform = Platform::assemble(vec![service(&self.reins, newer)]).expect("the service is in order");
        let config = self.platform.config().clone();
        let mut running = Running::new(platform, config, stop.clone()).expect("the parts connect");
        running.run_relay();
        running.run_consumers();
        Instance { running, stop }
    }

    pub(super) fn db(&self) -> &Db {
        self.platform.db()
    }

    /// Publishes in one transaction.
    pub(super) async fn publish(&self, tenant: &str, messages: impl IntoIterator<Item = NewMessage>) {
        let mut tx = self.db().begin(scope(tenant)).await.expect("a connection");
        for message in messages {
            outbox::send(&mut tx, message).await.expect("the message is accepted");
        }
        tx.commit().await.expect("it commits");
    }

    /// Waits until a queue has `count` effects.
    pub(super) async fn effects(&self, queue: &str, count: usize) -> Vec<Effect> {
        eventually(&format!("{count} effects of {queue}"), || async {
            let effects = store::effects(&self.owner, queue).await;
            (effects.len() >= count).then_some(effects)
        })
        .await
    }

    /// The same, of all queues, once nothing is left to do: effects that come too often have come by then.
    pub(super) async fn effects_in_the_end(&self, queue: &str, count: usize) -> Vec<Effect> {
        self.effects(queue, count).await;
        self.drained().await;
        store::effects(&self.owner, queue).await
    }

    /// Waits until nothing waits in the database. On an external bus something may still be on its way.
    pub(super) async fn drained(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let waiting = store::waiting(&self.owner).await;
            if waiting.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "still waiting: {waiting}");
            sleep(PAUSE).await;
        }
    }

    /// Waits until there are `count` dead letters.
    pub(super) async fn dead(&self, count: usize) -> Vec<Dead> {
        eventually(&format!("{count} dead letters"), || async {
            let dead = store::dead_letters(&self.owner).await;
            (dead.len() >= count).then_some(dead)
        })
        .await
    }

    /// Waits until handlers have begun so often.
    pub(super) async fn begun(&self, times: u64) {
        let mut begun = self.reins.begun.subscribe();
        let began = timeout(PATIENCE, begun.wait_for(|begun| *begun >= times)).await;
        began.expect("a handler begins in time").expect("the service is there");
    }

    /// The external bus with the topology on it, as another program would use it.
    pub(super) async fn broker(&self) -> Arc<dyn Broker> {
        let broker = self.platform.broker();
        // The relay declares at the same moment, so the first answers may be from a server in the middle of it.
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

    /// Stops it; everything in hand must be finished or handed back. Gives what keeps the database alive.
    pub(super) async fn stop(self) -> (Client, onceward_testkit::TestDb) {
        let (clean, database) = self.platform.stop().await;
        assert!(clean, "work in hand was neither finished nor handed back");
        (self.owner, database)
    }
}

/// A further process.
pub(super) struct Instance {
    running: Running,
    stop: CancellationToken,
}

impl Instance {
    pub(super) async fn stop(self) {
        self.stop.cancel();
        assert!(self.running.finished().await, "work in hand was neither finished nor handed back");
    }
}

pub(super) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a valid tenant")
}

pub(super) fn scope(name: &str) -> Scope {
    Scope::tenant(tenant(name))
}

pub(super) fn named(name: &str) -> Job {
    Job { name: name.to_owned(), ..Job::default() }
}

/// A job of "acme" as a message.
pub(super) fn message(job: &Job) -> NewMessage {
    NewMessage::from_event(job, &tenant("acme")).expect("a job is a message")
}

pub(super) fn call(job: Job) -> NewMessage {
    NewMessage::from_event(&Call(job), &tenant("acme")).expect("a call is a message")
}

/// The same job under another routing key.
pub(super) fn message_to(job: &Job, what: &str) -> NewMessage {
    NewMessage { topic: format!("conformance.events:tenant.acme.{what}"), ..message(job) }
}

/// A job as it lies on an external bus.
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
        topic: job.topic(&tenant_id),
        ordering_key: ordering_key.map(str::to_owned),
        priority: 0,
        queue_tenant: tenant_id.clone(),
        attempt: 1,
        published_at: "2026-11-05T10:00:00Z".parse().expect("a time"),
        first_error: None,
        first_failed_at: None,
    };
    let topic: onceward_topology::Topic = job.topic(&tenant_id).parse().expect("a topic");
    wire::pack(&delivery, topic.into(), true).expect("a job can be packed")
}

/// Publishes on the bus itself, past the outbox.
pub(super) async fn publish_raw(broker: &dyn Broker, parcels: Vec<Parcel>) {
    let count = parcels.len();
    let verdicts = timeout(PATIENCE, broker.publish(parcels)).await.expect("it answers in time");
    assert_eq!(verdicts.expect("it answers"), vec![Verdict::Accepted; count]);
}

/// A short while in which nothing is waited for.
pub(super) const A_WHILE: Duration = Duration::from_millis(700);
