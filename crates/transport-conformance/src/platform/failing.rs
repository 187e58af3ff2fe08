//! Messages that cannot be handled, for now or for good.

use super::{
    PlatformLab,
    service::{ATTEMPTS, DEAD, Job, WORK},
    stage::{Stage, message, named},
    store,
};
use crate::wire::stand::left_out;
use onceward::{Event, transport::Reading};
use onceward_testkit::{PATIENCE, eventually};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{sync::Mutex, time::timeout};

fn poison() -> Job {
    Job { failures: u32::MAX, ..named("poison") }
}

/// See the name.
pub async fn a_poisoned_message_is_tried_as_often_as_its_policy_says_and_holds_up_nobody(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let jobs = (0..20).map(|number| if number == 5 { poison() } else { Job { number, ..named("good") } });
    stage.publish("acme", jobs.map(|job| message(&job).ordered_by("key"))).await;
    let dead = stage.dead(1).await;
    assert_eq!((dead[0].name.as_deref(), dead[0].reason.as_str()), (Some("poison"), "attempts_exhausted"));
    assert_eq!(dead[0].attempts, i32::try_from(ATTEMPTS).expect("few"));
    assert_eq!(dead[0].last_error.as_deref(), Some("as the message says"));
    let numbers: Vec<i64> = stage.effects_in_the_end(WORK, 19).await.iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, (0..20).filter(|number| *number != 5).collect::<Vec<_>>());
    assert_eq!(store::dead_letters(&stage.owner).await.len(), 1);
}

/// See the name.
pub async fn a_dead_letters_copy_lies_on_the_bus(lab: &dyn PlatformLab) {
    if lab.bus_url().is_none() {
        return left_out("on PostgreSQL the dead letter itself is all there is");
    }
    let stage = Stage::running(lab).await;
    let broker = stage.broker().await;
    stage.publish("acme", [message(&poison())]).await;
    stage.dead(1).await;
    let reading = Reading { queue: DEAD.to_owned(), exclusive: true, prefetch: 1 };
    let opened = timeout(PATIENCE, broker.open(reading)).await.expect("it answers in time");
    let receiver = Mutex::new(opened.expect("the queue can be read"));
    let copy = eventually("the copy comes", || async {
        let received = receiver.lock().await.receive(1, Duration::from_secs(1)).await;
        received.expect("the queue can be read").pop()
    })
    .await;
    let body: Value = serde_json::from_slice(&copy.body).expect("an envelope");
    assert_eq!(body["payload"]["name"], "poison");
    assert_eq!(body["deadLetter"]["reason"], "attempts_exhausted");
    assert_eq!(body["deadLetter"]["queue"], WORK);
}

/// One message is to be tried again in an hour; everything behind it with another key goes on.
pub async fn a_message_that_waits_for_a_retry_does_not_block_the_queue(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    stage.publish("acme", [message(&Job { much_later: true, ..named("slow") }).ordered_by("slow key")]).await;
    eventually("it waits", || async { (store::put_aside(&stage.owner).await == 1).then_some(()) }).await;
    let others = (0..20).map(|number| Job { number, ..named("other") });
    stage.publish("acme", others.map(|job| message(&job).ordered_by(format!("key {}", job.number)))).await;
    let effects = stage.effects(WORK, 20).await;
    assert!(effects.iter().all(|effect| effect.name == "other"), "{effects:?}");
    assert_eq!(store::put_aside(&stage.owner).await, 1);
    assert!(store::dead_letters(&stage.owner).await.is_empty());
}

/// See the name.
pub async fn a_message_of_another_tenant_is_a_dead_letter(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let topic = "conformance.events:tenant.globex.job";
    store::enqueue(&stage.owner, "acme", topic, Job::TYPE, &json!({"name": "astray"})).await;
    stage.publish("acme", [message(&named("good"))]).await;
    let dead = stage.dead(1).await;
    assert_eq!((dead[0].name.as_deref(), dead[0].reason.as_str()), (Some("astray"), "tenant_mismatch"));
    let effects = stage.effects_in_the_end(WORK, 1).await;
    assert_eq!(effects.iter().map(|effect| effect.name.as_str()).collect::<Vec<_>>(), ["good"]);
}
