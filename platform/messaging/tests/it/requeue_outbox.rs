//! Messages that the bus refused, requeued into the outbox.

use crate::{
    support::{QUEUE, bare_service, job, one_lane, publish},
    triage_support::{all_dead_letters, operator, requeue},
};
use onceward::{
    broker::{DeadReason, Settlement},
    db::Db,
    message_log::{MessageLog, MessageLogConfig, Subscription, outbox, routes::OUTBOX, triage},
};
use onceward_testkit::{TestPlatform, eventually, left_out, redis_url};
use std::time::Duration;

/// A platform whose messages wait for a relay that is not running yet.
async fn waiting() -> TestPlatform {
    let redis = tokio::task::spawn_blocking(redis_url).await.expect("Redis is available");
    TestPlatform::on_bus(vec![bare_service(one_lane())], Some(&redis)).await
}

/// Takes all messages waiting in the outbox and settles them like a relay whose bus refuses them. Returns their
/// number.
async fn refuse(db: &Db, settlement: Settlement) -> usize {
    let subscription = Subscription {
        consumer: "relay".into(),
        queue: OUTBOX.into(),
        ordered: true,
        holds_keys: false,
        concurrency: 1,
        isolate_killers: false,
    };
    let bus = MessageLog::new(db.clone(), MessageLogConfig::default());
    let reader = bus.open(subscription).await.expect("the outbox is a queue");
    let turn = eventually("a turn is available", || async { reader.take(10).await.expect("the query succeeds") }).await;
    let refused = turn.deliveries().len();
    turn.settle(&vec![settlement; refused]).await.expect("it is settled");
    refused
}

#[tokio::test]
async fn a_message_refused_by_the_bus_is_published_after_a_requeue() {
    if left_out("redis") {
        return;
    }
    let mut platform = waiting().await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a").ordered_by("k"), job("acme", "b").ordered_by("k")]).await;
    let dead = Settlement::Dead { reason: DeadReason::RefusedByBus, error: "too large".into() };
    assert_eq!(refuse(platform.db(), dead).await, 2);
    let ids = all_dead_letters(platform.db()).await;
    let letters = triage::details(platform.db(), &ids).await.unwrap();
    assert_eq!((letters.len(), letters[0].summary.queue.as_str()), (2, OUTBOX));
    let outcomes = requeue(platform.db(), &ids).await;
    assert_eq!(outcomes.iter().map(|outcome| outcome.wait_ms).collect::<Vec<_>>(), [Some(0), None]);
    platform.run_relay();
    let unpublished = "SELECT count(*) FROM onceward.outbox_messages WHERE published_at IS NULL";
    eventually("both are published", || async {
        (crate::support::count(&owner, unpublished).await == 0).then_some(())
    })
    .await;
    assert_eq!(platform.broker().waiting(QUEUE).await.unwrap(), Some(2));
    assert_eq!(triage::history(platform.db(), None, None, 10).await.unwrap().len(), 2);
    assert_eq!(operator().name, triage::history(platform.db(), None, None, 1).await.unwrap()[0].actor);
}

#[tokio::test]
async fn a_refused_message_is_retried_immediately_on_request() {
    if left_out("redis") {
        return;
    }
    let mut platform = waiting().await;
    let db = platform.db().clone();
    publish(&db, "acme", [job("acme", "a")]).await;
    let again = Settlement::Retry { after: Duration::from_secs(3600), error: "no room".into() };
    assert_eq!(refuse(&db, again).await, 1);
    let deferred = outbox::deferred(&db).await.unwrap();
    assert_eq!((deferred.deferred, deferred.refused, deferred.last_error.as_deref()), (1, 1, Some("no room")));
    assert_eq!(outbox::retry(&db, Some(uuid::Uuid::now_v7()), &operator()).await.unwrap(), 0, "another event's");
    assert_eq!(outbox::retry(&db, None, &operator()).await.unwrap(), 1);
    assert_eq!(outbox::retry(&db, None, &operator()).await.unwrap(), 0, "it is due already");
    platform.run_relay();
    eventually("it is published", || async { (outbox::deferred(&db).await.unwrap().deferred == 0).then_some(()) })
        .await;
    assert_eq!(platform.broker().waiting(QUEUE).await.unwrap(), Some(1));
}
