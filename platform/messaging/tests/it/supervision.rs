//! Supervision: a task that panics outside of a handler is restarted, counted and reported by name.

use crate::support::{Probe, drained, effects_reach, job, numbered, one_lane, platform, publish};
use jiff::Timestamp;
use onceward::{
    Supervisor,
    broker::Settlement,
    envelope::{Clock, SystemClock},
    message_log::{MessageLog, MessageLogConfig, Subscription},
    messaging::consumer::{self, WorkerContext},
};
use onceward_testkit::eventually;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// A clock that panics on its first few calls. The engine reads it at the start of a turn, outside of any handler.
struct PanickingClock(AtomicUsize);

impl Clock for PanickingClock {
    fn now(&self) -> Timestamp {
        let panics_left = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        assert!(panics_left.is_err(), "on purpose");
        SystemClock.now()
    }
}

#[tokio::test]
async fn a_consumer_that_panics_outside_of_a_handler_is_restarted_and_reported() {
    let (probe, _calls) = Probe::good();
    let consumer = crate::support::consumer(probe).concurrency(2);
    let platform = platform(one_lane(), consumer.clone()).await;
    let owner = platform.database().owner().await;
    let log = MessageLog::new(platform.db().clone(), MessageLogConfig::default());
    let (schemas, topology) = (platform.platform().schemas().clone(), platform.platform().topology().clone());
    let mut context = WorkerContext::new(platform.db().clone(), log, schemas, topology);
    context.clock = Arc::new(PanickingClock(AtomicUsize::new(3)));
    context.supervisor = Supervisor::new();
    let (supervisor, stop) = (context.supervisor.clone(), CancellationToken::new());
    let running = tokio::spawn(consumer::run(consumer.into(), context, stop.clone()));
    publish(platform.db(), "acme", [job("acme", "kept")]).await;
    assert_eq!(effects_reach(&owner, 1).await, ["kept"]);
    let failing = supervisor.failing();
    assert_eq!(
        failing.iter().map(|task| (task.name.as_str(), task.restarts)).collect::<Vec<_>>(),
        [("consumer:probe", 3)]
    );
    stop.cancel();
    running.await.expect("it ends without a panic");
}

#[tokio::test]
async fn a_message_that_kills_its_worker_does_not_dead_letter_another_tenants_message() {
    let (probe, _calls) = Probe::good();
    let consumer = crate::support::consumer(probe).concurrency(1);
    let platform = platform(one_lane().delivery_limit(1), consumer.clone()).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [numbered("acme", "poison", 1)]).await;
    publish(platform.db(), "globex", [numbered("globex", "innocent", 2)]).await;
    // A worker that dies in every turn that contains the poison, as after a panic or an abort.
    let log = MessageLog::new(platform.db().clone(), MessageLogConfig::default());
    let subscription = Subscription {
        consumer: "probe".into(),
        queue: crate::support::QUEUE.into(),
        ordered: true,
        holds_keys: false,
        concurrency: 1,
        isolate_killers: true,
    };
    let reader = log.open(subscription).await.expect("the queue opens");
    eventually("the poison is beyond its limit", || async {
        let Some(turn) = reader.take(10).await.expect("a turn") else {
            reader.wait(Duration::from_millis(100)).await;
            return None;
        };
        let deliveries = turn.deliveries();
        let poison = deliveries.iter().find(|delivery| delivery.envelope.payload["name"] == "poison");
        for innocent in deliveries.iter().filter(|delivery| delivery.envelope.payload["name"] == "innocent") {
            assert_eq!(innocent.attempt, 1, "the starts of another lane's turn were counted against it");
        }
        match poison {
            Some(poison) if poison.attempt > 3 => Some(()),
            Some(_) => None,
            None => {
                let settled = vec![Settlement::Done; deliveries.len()];
                turn.settle(&settled).await.expect("it is settled");
                None
            }
        }
    })
    .await;
    let dead =
        crate::support::count(&owner, "SELECT count(*) FROM onceward.dead_letters WHERE tenant_id = 'globex'").await;
    assert_eq!(dead, 0);
    let mut running = platform;
    running.run_consumers();
    drained(&owner).await;
    let letters = crate::support::dead_letters(&owner, 1).await;
    assert_eq!(letters.iter().map(|letter| letter.tenant.as_str()).collect::<Vec<_>>(), ["acme"]);
}
