//! A leased message that kills its workers is isolated from those held at the same time, and only it is dead-lettered.

use crate::support::{
    GENEROUS, HandlerCall, Job, QUEUE, count, dead_letters, drained, effects, numbered, one_lane, platform, publish,
    quick, write_effect,
};
use onceward::{
    Consumer, Failure, LeasedHandler, Received, Tx,
    broker::Settlement,
    message_log::{LeasedMessage, MessageLog, MessageLogConfig, QueueReader, Subscription},
    messaging::{LeasedConsumer, consumer::LeaseContext},
};
use onceward_testkit::{PATIENCE, TestPlatform, eventually};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc};

const LEASE: Duration = Duration::from_secs(3600);

/// Reports each message with the number of messages in flight, and holds it until the test releases it.
#[derive(Clone)]
struct CountingHandler {
    in_flight: Arc<AtomicUsize>,
    released: Arc<Semaphore>,
    seen: mpsc::UnboundedSender<(String, usize)>,
}

impl LeasedHandler for CountingHandler {
    type Event = Job;
    type Work = ();

    async fn perform(&self, _lease: &LeaseContext, received: &Received<'_, Job>) -> Result<(), Failure> {
        let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        let _ = self.seen.send((received.event.name.clone(), in_flight));
        self.released.acquire().await.expect("never closed").forget();
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Job>, (): &()) -> Result<(), Failure> {
        write_effect(tx, &HandlerCall::of(received, &received.event)).await
    }
}

fn counting_handler() -> (CountingHandler, mpsc::UnboundedReceiver<(String, usize)>, Arc<Semaphore>) {
    let (seen, receiver) = mpsc::unbounded_channel();
    let released = Arc::new(Semaphore::new(0));
    (CountingHandler { in_flight: Arc::default(), released: released.clone(), seen }, receiver, released)
}

fn consumer(handler: CountingHandler) -> LeasedConsumer {
    Consumer::leased("probe", QUEUE).on(handler).retry(quick(3)).budget(GENEROUS).lease(LEASE).concurrency(4)
}

async fn open_queue(platform: &TestPlatform) -> QueueReader {
    let log = MessageLog::new(platform.db().clone(), MessageLogConfig::default());
    let subscription = Subscription {
        consumer: "probe".into(),
        queue: QUEUE.into(),
        ordered: true,
        holds_keys: false,
        concurrency: 1,
        isolate_killers: true,
    };
    log.open(subscription).await.expect("the queue opens")
}

fn name(leased: &LeasedMessage) -> String {
    leased.delivery.envelope.payload["name"].as_str().unwrap_or_default().to_owned()
}

async fn settle(platform: &TestPlatform, reader: &QueueReader, leased: &LeasedMessage) {
    let mut tx = platform.db().begin(platform.scope("acme")).await.expect("a connection");
    assert!(reader.settle_lease(&mut tx, leased, Settlement::Done).await.expect("it is settled"));
    tx.commit().await.expect("it commits");
}

#[tokio::test]
async fn a_message_that_kills_its_worker_does_not_dead_letter_another_tenants_message() {
    let (handler, _seen, released) = counting_handler();
    released.add_permits(10);
    let mut platform = platform(one_lane().delivery_limit(1), consumer(handler)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [numbered("acme", "poison", 1), numbered("acme", "neighbour", 2)]).await;
    publish(platform.db(), "globex", [numbered("globex", "innocent", 3)]).await;
    let reader = open_queue(&platform).await;
    // A worker that dies whenever it holds the poison: nothing that it holds is settled, and its leases expire.
    eventually("the poison is beyond its limit", || async {
        let batch = reader.lease(10, LEASE).await.expect("leases");
        if batch.is_empty() {
            reader.wait(Duration::from_millis(100)).await;
            return None;
        }
        for innocent in batch.iter().filter(|leased| name(leased) != "poison") {
            assert_eq!(
                innocent.delivery.attempt,
                1,
                "the death of another worker was counted against {}",
                name(innocent)
            );
        }
        assert!(batch.len() == 1 || batch.iter().all(|leased| !leased.alone), "a suspicious message is leased alone");
        for leased in batch.iter().filter(|leased| leased.alone) {
            assert!(reader.start_alone(leased.lease).await.expect("the start is recorded"));
        }
        let poison = batch.iter().find(|leased| name(leased) == "poison");
        if poison.is_none() {
            for innocent in &batch {
                settle(&platform, &reader, innocent).await;
            }
        }
        let expired = "UPDATE onceward.deferred SET due_at = clock_timestamp() WHERE state = 'leased'";
        owner.batch_execute(expired).await.expect("the owner may");
        reader.poll_now();
        poison.filter(|poison| poison.delivery.attempt > 1).map(drop)
    })
    .await;
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.dead_letters").await, 0);
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].name.as_deref(), dead[0].reason.as_str()), (Some("poison"), "delivery_limit"));
    drained(&owner).await;
    assert!(!effects(&owner).await.contains(&"poison".to_owned()));
    assert_eq!(dead_letters(&owner, 1).await.len(), 1);
}

#[tokio::test]
async fn a_message_whose_workers_died_is_handled_alone() {
    let (handler, mut seen, released) = counting_handler();
    let mut platform = platform(one_lane(), consumer(handler)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [numbered("acme", "suspicious", 0)]).await;
    let reader = open_queue(&platform).await;
    eventually("it is leased", || async {
        reader.wait(Duration::from_millis(20)).await;
        reader.lease(1, LEASE).await.expect("a lease").pop()
    })
    .await;
    platform.run_consumers();
    publish(platform.db(), "acme", [numbered("acme", "other", 1), numbered("acme", "other", 2)]).await;
    let mut next = async || {
        let next = tokio::time::timeout(PATIENCE, seen.recv()).await;
        next.expect("something is handled").expect("the handler is there")
    };
    assert_eq!([next().await, next().await], [1, 2].map(|in_flight| ("other".to_owned(), in_flight)));

    let lost = "UPDATE onceward.deferred SET lost = 1, due_at = clock_timestamp() WHERE message->'payload'->>'name' = 'suspicious'";
    owner.batch_execute(lost).await.expect("the owner may");
    let lease = "SELECT starts_alone FROM onceward.deferred WHERE lease = 2";
    let starts = eventually("it is leased again", || async { owner.query_opt(lease, &[]).await.ok()? }).await;
    assert_eq!(starts.get::<_, i32>(0), 0, "it waits until the others are done");
    released.add_permits(2);
    assert_eq!(next().await, ("suspicious".to_owned(), 1));
    assert_eq!(count(&owner, "SELECT starts_alone::bigint FROM onceward.deferred WHERE lease = 2").await, 1);
    released.add_permits(1);
    drained(&owner).await;
    assert_eq!(count(&owner, "SELECT count(*) FROM probe.effect WHERE attempt = 1").await, 3);
}
