//! Messages and their effects.

use super::{
    PlatformHarness,
    fixture::{DELAY, PlatformFixture, call, job, message, message_to, tenant_scope},
    service::{AUDIT, CALLS, Job, JobV2, URGENT, WORK},
    store,
};
use onceward::{Event, outbox};
use onceward_testkit::eventually;

pub async fn a_message_has_its_effect_once(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    for key in ["k1", "k1", "k2"] {
        fixture.publish("acme", [message(&job(key)).once_per(key)]).await;
    }
    fixture.publish("acme", [message(&job("no key")), message(&job("no key"))]).await;
    let effects = fixture.final_effects(WORK, 4).await;
    let mut names: Vec<&str> = effects.iter().map(|effect| effect.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["k1", "k2", "no key", "no key"]);
    assert!(effects.iter().all(|effect| effect.attempt == 1 && effect.tenant == "acme"), "{effects:?}");
}

pub async fn a_message_exists_only_if_its_transaction_committed(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let mut undone = fixture.db().begin(tenant_scope("acme")).await.expect("a connection");
    outbox::publish(&mut undone, &job("undone")).await.expect("the message is accepted");
    drop(undone);
    fixture.publish("acme", [message(&job("done"))]).await;
    let effects = fixture.final_effects(WORK, 1).await;
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].name, "done");
}

pub async fn the_routing_key_decides_who_handles_a_message(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    fixture.publish("acme", [message(&job("job")), call(job("call")), message_to(&job("urgent"), "urgent")]).await;
    // No queue is bound to it: it is published and delivered to none.
    fixture.publish("acme", [message_to(&job("unrouted"), "nobody.listens")]).await;
    for (queue, name) in [(WORK, "job"), (CALLS, "call done"), (URGENT, "urgent")] {
        let effects = fixture.final_effects(queue, 1).await;
        assert_eq!(effects.iter().map(|effect| effect.name.as_str()).collect::<Vec<_>>(), [name], "{queue}");
    }
    assert!(store::effects(&fixture.owner, AUDIT).await.is_empty());
}

pub async fn every_queue_handles_a_message_for_itself(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let jobs = (0..50).map(|number| Job { number, ..job("audited") });
    fixture.publish("acme", jobs.map(|job| message_to(&job, "audited").ordered_by("key"))).await;
    for queue in [WORK, AUDIT] {
        let effects = fixture.final_effects(queue, 50).await;
        let numbers: Vec<i64> = effects.iter().map(|effect| effect.number).collect();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "{queue}");
    }
}

pub async fn a_delayed_message_is_not_handled_before_its_time(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let published = store::now(&fixture.owner).await;
    fixture.publish("acme", [message(&job("later")).ordered_by("key").after(DELAY)]).await;
    fixture.publish("acme", [message(&job("at once")).ordered_by("key")]).await;
    fixture.final_effects(WORK, 2).await;
    let waited = store::elapsed_until_effect(&fixture.owner, "later", published).await;
    assert!(waited >= DELAY, "it was handled after {waited:?}");
}

/// One message blocks the only worker until all others have arrived.
pub async fn waiting_messages_are_handled_by_priority(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let urgent = |name: &str, priority| message_to(&job(name), "urgent").with_priority(priority);
    fixture.publish("acme", [message_to(&Job { blocks: true, ..job("first") }, "urgent")]).await;
    fixture.wait_for_starts(1).await;
    for (name, priority) in [("low", 0), ("middle", 5), ("high", 9)] {
        fixture.publish("acme", (0..10).map(|_| urgent(name, priority))).await;
    }
    eventually("all messages have arrived", || async {
        (store::depth(&fixture.owner, URGENT).await >= 31).then_some(())
    })
    .await;
    fixture.control.release_all();
    let effects = fixture.effects(URGENT, 31).await;
    let names: Vec<&str> = effects.iter().skip(1).map(|effect| effect.name.as_str()).collect();
    assert_eq!(names, [["high"; 10], ["middle"; 10], ["low"; 10]].concat());
}

pub async fn a_leased_consumer_records_its_work_once(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let jobs = (0..10).map(|number| Job { number, failures: u32::from(number == 3), ..job("call") });
    fixture.publish("acme", jobs.map(|job| call(job).ordered_by("key"))).await;
    let effects = fixture.final_effects(CALLS, 10).await;
    let numbers: Vec<i64> = effects.iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    assert!(effects.iter().all(|effect| effect.name == "call done"));
    assert_eq!(effects[3].attempt, 2);
}

pub async fn a_newer_version_waits_for_a_worker_that_knows_it(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let newer = onceward::NewMessage { event_type: JobV2::TYPE.to_owned(), ..message(&job("newer")) };
    fixture.publish("acme", [newer]).await;
    let attempts = eventually("the message is deferred", || store::attempts_of_deferred(&fixture.owner)).await;
    assert_eq!(attempts, 0);
    fixture.publish("acme", [message(&job("older"))]).await;
    assert_eq!(fixture.effects(WORK, 1).await[0].name, "older");
    // The old program stops and the new one starts, as in an upgrade.
    let upgraded = fixture.start_instance(true);
    let (owner, _database) = fixture.stop().await;
    let effects = eventually("both are handled", || async {
        let effects = store::effects(&owner, WORK).await;
        (effects.len() >= 2).then_some(effects)
    })
    .await;
    assert_eq!((effects[1].name.as_str(), effects[1].attempt), ("newer", 1));
    upgraded.stop().await;
}
