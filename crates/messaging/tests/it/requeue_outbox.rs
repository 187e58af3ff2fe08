//! Messages that the bus did not want, put back into the outbox.

use crate::{
    support::{QUEUE, bare_service, job, one_lane, publish},
    triage_support::{all_dead, operator, requeue},
};
use onceward::{
    db::Db,
    transport::{DeadReason, Intake, Settlement, Subscription, Transport},
    transport_postgres::{PostgresBusConfig, PostgresTransport, outbox, routes::OUTBOX, triage},
};
use onceward_testkit::{TestPlatform, eventually, redis_url};
use std::time::Duration;

/// A platform whose messages wait for a relay that does not run yet.
async fn waiting() -> TestPlatform {
    let redis = tokio::task::spawn_blocking(redis_url).await.expect("a Redis can be had");
    TestPlatform::on_bus(vec![bare_service(one_lane())], Some(&redis)).await
}

/// Takes everything that waits in the outbox and settles it like a relay whose bus refuses it.
async fn refuse(db: &Db, settlement: Settlement) -> usize {
    let subscription = Subscription {
        consumer: "relay".into(),
        queue: OUTBOX.into(),
        ordered: true,
        concurrency: 1,
        isolate_killers: false,
    };
    let bus = PostgresTransport::new(db.clone(), PostgresBusConfig::default());
    let intake: Box<dyn Intake> = bus.open(subscription).await.expect("the outbox is a queue");
    let turn =
        eventually("there is a turn to take", || async { intake.take(10).await.expect("it can be asked") }).await;
    let refused = turn.deliveries().len();
    turn.settle(vec![settlement; refused]).await.expect("it is settled");
    refused
}

#[tokio::test]
async fn what_the_relay_gave_up_is_published_once_it_is_put_back() {
    let mut platform = waiting().await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a").ordered_by("k"), job("acme", "b").ordered_by("k")]).await;
    let dead = Settlement::Dead { reason: DeadReason::RefusedByBus, error: "too large".into() };
    assert_eq!(refuse(platform.db(), dead).await, 2);
    let ids = all_dead(platform.db()).await;
    let letters = triage::letters(platform.db(), &ids).await.unwrap();
    assert_eq!((letters.len(), letters[0].summary.queue.as_str()), (2, OUTBOX));
    let fates = requeue(platform.db(), &ids).await;
    assert_eq!(fates.iter().map(|fate| fate.wait_ms).collect::<Vec<_>>(), [Some(0), None]);
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
async fn a_refused_message_is_offered_again_at_once_when_asked_for() {
    let mut platform = waiting().await;
    let db = platform.db().clone();
    publish(&db, "acme", [job("acme", "a")]).await;
    let again = Settlement::Retry { after: Duration::from_secs(3600), error: "no room".into() };
    assert_eq!(refuse(&db, again).await, 1);
    let aside = outbox::aside(&db).await.unwrap();
    assert_eq!((aside.put_aside, aside.refused, aside.last_error.as_deref()), (1, 1, Some("no room")));
    assert_eq!(outbox::retry(&db, Some(uuid::Uuid::now_v7())).await.unwrap(), 0, "another event's");
    assert_eq!(outbox::retry(&db, None).await.unwrap(), 1);
    assert_eq!(outbox::retry(&db, None).await.unwrap(), 0, "it is due already");
    platform.run_relay();
    eventually("it is published", || async { (outbox::aside(&db).await.unwrap().put_aside == 0).then_some(()) }).await;
    assert_eq!(platform.broker().waiting(QUEUE).await.unwrap(), Some(1));
}
