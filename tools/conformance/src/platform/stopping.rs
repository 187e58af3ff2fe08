//! Stopping and starting.

use super::{
    PlatformHarness,
    fixture::{PlatformFixture, job, message},
    service::{Job, WORK},
    store,
};
use onceward_testkit::eventually;

pub async fn a_second_instance_finishes_the_work_of_a_stopped_one(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let jobs = (0..300).map(|number| Job { number, blocks: number == 20, ..job("job") });
    let messages: Vec<_> = jobs.map(|job| message(&job).ordered_by("key")).collect();
    let (first, rest) = messages.split_at(100);
    fixture.publish("acme", first.to_vec()).await;
    // The message with number 20 is being handled, and the messages behind it wait.
    fixture.wait_for_starts(21).await;
    fixture.publish("acme", rest.to_vec()).await;
    let successor = fixture.start_instance(false);
    let control = fixture.control.clone();
    let stopping = fixture.stop();
    let (stopped, ()) = tokio::join!(stopping, async {
        tokio::task::yield_now().await;
        control.release_all();
    });
    let (owner, _database) = stopped;
    let effects = eventually("everything is handled", || async {
        let effects = store::effects(&owner, WORK).await;
        (effects.len() >= 300).then_some(effects)
    })
    .await;
    let numbers: Vec<i64> = effects.iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
    successor.stop().await;
}

pub async fn messages_published_while_no_instance_runs_are_handled_later(harness: &dyn PlatformHarness) {
    let mut fixture = PlatformFixture::new(harness).await;
    fixture.publish("acme", (0..50).map(|number| message(&Job { number, ..job("job") }).ordered_by("key"))).await;
    fixture.run();
    fixture.publish("acme", (50..100).map(|number| message(&Job { number, ..job("job") }).ordered_by("key"))).await;
    let effects = fixture.final_effects(WORK, 100).await;
    let numbers: Vec<i64> = effects.iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}
