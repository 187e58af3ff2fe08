//! Messages that cannot be handled, temporarily or permanently.

use super::{
    PlatformHarness,
    fixture::{PlatformFixture, job, message},
    service::{ATTEMPTS, DEAD, Job, WORK},
    store,
};
use crate::broker::fixture::left_out;
use onceward::{Event, broker::ReceiveOptions};
use onceward_testkit::{PATIENCE, eventually};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{sync::Mutex, time::timeout};

fn poison() -> Job {
    Job { failures: u32::MAX, ..job("poison") }
}

pub async fn a_poisoned_message_uses_up_its_attempts_and_blocks_no_other(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let jobs = (0..20).map(|number| if number == 5 { poison() } else { Job { number, ..job("good") } });
    fixture.publish("acme", jobs.map(|job| message(&job).ordered_by("key"))).await;
    let dead = fixture.wait_for_dead_letters(1).await;
    assert_eq!((dead[0].name.as_deref(), dead[0].reason.as_str()), (Some("poison"), "attempts_exhausted"));
    assert_eq!(dead[0].attempts, i32::try_from(ATTEMPTS).expect("a small number"));
    assert_eq!(dead[0].last_error.as_deref(), Some("as the message requests"));
    let numbers: Vec<i64> = fixture.final_effects(WORK, 19).await.iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, (0..20).filter(|number| *number != 5).collect::<Vec<_>>());
    assert_eq!(store::dead_letters(&fixture.owner).await.len(), 1);
}

pub async fn a_dead_letter_is_copied_to_the_bus(harness: &dyn PlatformHarness) {
    if harness.bus_url().is_none() {
        return left_out("on PostgreSQL the dead letter is not copied");
    }
    let fixture = PlatformFixture::running(harness).await;
    let broker = fixture.broker().await;
    fixture.publish("acme", [message(&poison())]).await;
    fixture.wait_for_dead_letters(1).await;
    let reading = ReceiveOptions { queue: DEAD.to_owned(), exclusive: true, prefetch: 1 };
    let opened = timeout(PATIENCE, broker.open(reading)).await.expect("the broker responds in time");
    let receiver = Mutex::new(opened.expect("the queue can be read"));
    let copy = eventually("the copy arrives", || async {
        let received = receiver.lock().await.receive(1, Duration::from_secs(1)).await;
        received.expect("the queue can be read").pop()
    })
    .await;
    let body: Value = serde_json::from_slice(&copy.body).expect("an envelope");
    assert_eq!(body["payload"]["name"], "poison");
    assert_eq!(body["deadLetter"]["reason"], "attempts_exhausted");
    assert_eq!(body["deadLetter"]["queue"], WORK);
}

/// One message is retried in an hour; all messages behind it with other keys continue.
pub async fn a_message_that_waits_for_a_retry_does_not_block_the_queue(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    fixture.publish("acme", [message(&Job { fails_for_an_hour: true, ..job("slow") }).ordered_by("slow key")]).await;
    eventually("the message is deferred", || async {
        (store::deferred_count(&fixture.owner).await == 1).then_some(())
    })
    .await;
    let others = (0..20).map(|number| Job { number, ..job("other") });
    fixture.publish("acme", others.map(|job| message(&job).ordered_by(format!("key {}", job.number)))).await;
    let effects = fixture.effects(WORK, 20).await;
    assert!(effects.iter().all(|effect| effect.name == "other"), "{effects:?}");
    assert_eq!(store::deferred_count(&fixture.owner).await, 1);
    assert!(store::dead_letters(&fixture.owner).await.is_empty());
}

pub async fn a_message_of_another_tenant_is_a_dead_letter(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let topic = "conformance.events:tenant.globex.job";
    store::enqueue(&fixture.owner, "acme", topic, Job::TYPE, &json!({"name": "astray"})).await;
    fixture.publish("acme", [message(&job("good"))]).await;
    let dead = fixture.wait_for_dead_letters(1).await;
    assert_eq!((dead[0].name.as_deref(), dead[0].reason.as_str()), (Some("astray"), "tenant_mismatch"));
    let effects = fixture.final_effects(WORK, 1).await;
    assert_eq!(effects.iter().map(|effect| effect.name.as_str()).collect::<Vec<_>>(), ["good"]);
}
