//! Messages and their effects.

use super::{
    PlatformLab,
    service::{AUDIT, CALLS, Job, JobV2, URGENT, WORK},
    stage::{A_WHILE, Stage, call, message, message_to, named, scope},
    store,
};
use onceward::{Event, outbox};
use onceward_testkit::eventually;

/// See the name.
pub async fn a_message_has_its_effect_once(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    for key in ["k1", "k1", "k2"] {
        stage.publish("acme", [message(&named(key)).once_per(key)]).await;
    }
    stage.publish("acme", [message(&named("no key")), message(&named("no key"))]).await;
    let effects = stage.effects_in_the_end(WORK, 4).await;
    let mut names: Vec<&str> = effects.iter().map(|effect| effect.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["k1", "k2", "no key", "no key"]);
    assert!(effects.iter().all(|effect| effect.attempt == 1 && effect.tenant == "acme"), "{effects:?}");
}

/// See the name.
pub async fn a_message_exists_if_its_transaction_committed(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let mut undone = stage.db().begin(scope("acme")).await.expect("a connection");
    outbox::publish(&mut undone, &named("undone")).await.expect("it is accepted");
    drop(undone);
    stage.publish("acme", [message(&named("done"))]).await;
    let effects = stage.effects_in_the_end(WORK, 1).await;
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].name, "done");
}

/// See the name.
pub async fn the_routing_key_decides_who_handles_a_message(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    stage.publish("acme", [message(&named("job")), call(named("call")), message_to(&named("urgent"), "urgent")]).await;
    // Nobody is bound to it: it is published and delivered to nobody.
    stage.publish("acme", [message_to(&named("nobody's"), "nobody.listens")]).await;
    for (queue, name) in [(WORK, "job"), (CALLS, "call done"), (URGENT, "urgent")] {
        let effects = stage.effects_in_the_end(queue, 1).await;
        assert_eq!(effects.iter().map(|effect| effect.name.as_str()).collect::<Vec<_>>(), [name], "{queue}");
    }
    assert!(store::effects(&stage.owner, AUDIT).await.is_empty());
}

/// See the name.
pub async fn every_queue_handles_a_message_for_itself(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let jobs = (0..50).map(|number| Job { number, ..named("audited") });
    stage.publish("acme", jobs.map(|job| message_to(&job, "audited").ordered_by("key"))).await;
    for queue in [WORK, AUDIT] {
        let effects = stage.effects_in_the_end(queue, 50).await;
        let numbers: Vec<i64> = effects.iter().map(|effect| effect.number).collect();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "{queue}");
    }
}

/// See the name.
pub async fn a_delayed_message_is_not_handled_before_its_time(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let published = store::now(&stage.owner).await;
    stage.publish("acme", [message(&named("later")).ordered_by("key").after(A_WHILE)]).await;
    stage.publish("acme", [message(&named("at once")).ordered_by("key")]).await;
    stage.effects_in_the_end(WORK, 2).await;
    let waited = store::made_after(&stage.owner, "later", published).await;
    assert!(waited >= A_WHILE, "it was handled after {waited:?}");
}

/// One message holds the only worker, until all others have come.
pub async fn of_what_waits_the_higher_priority_is_handled_first(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let urgent = |name: &str, priority| message_to(&named(name), "urgent").with_priority(priority);
    stage.publish("acme", [message_to(&Job { held: true, ..named("first") }, "urgent")]).await;
    stage.begun(1).await;
    for (name, priority) in [("low", 0), ("middle", 5), ("high", 9)] {
        stage.publish("acme", (0..10).map(|_| urgent(name, priority))).await;
    }
    eventually("all have come", || async { (store::depth(&stage.owner, URGENT).await >= 31).then_some(()) }).await;
    stage.reins.let_go();
    let effects = stage.effects(URGENT, 31).await;
    let names: Vec<&str> = effects.iter().skip(1).map(|effect| effect.name.as_str()).collect();
    assert_eq!(names, [["high"; 10], ["middle"; 10], ["low"; 10]].concat());
}

/// See the name.
pub async fn a_leased_consumer_records_its_work_once(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let jobs = (0..10).map(|number| Job { number, failures: u32::from(number == 3), ..named("call") });
    stage.publish("acme", jobs.map(|job| call(job).ordered_by("key"))).await;
    let effects = stage.effects_in_the_end(CALLS, 10).await;
    let numbers: Vec<i64> = effects.iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    assert!(effects.iter().all(|effect| effect.name == "call done"));
    assert_eq!(effects[3].attempt, 2);
}

/// See the name.
pub async fn a_newer_version_waits_for_a_worker_that_knows_it(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let newer = onceward::NewMessage { event_type: JobV2::TYPE.to_owned(), ..message(&named("newer")) };
    stage.publish("acme", [newer]).await;
    let attempts = eventually("it waits", || store::attempts_of_waiting(&stage.owner)).await;
    assert_eq!(attempts, 0);
    stage.publish("acme", [message(&named("older"))]).await;
    assert_eq!(stage.effects(WORK, 1).await[0].name, "older");
    // The old program ends and the new one starts, as in an upgrade.
    let upgraded = stage.another(true);
    let (owner, _database) = stage.stop().await;
    let effects = eventually("both are handled", || async {
        let effects = store::effects(&owner, WORK).await;
        (effects.len() >= 2).then_some(effects)
    })
    .await;
    assert_eq!((effects[1].name.as_str(), effects[1].attempt), ("newer", 1));
    upgraded.stop().await;
}
