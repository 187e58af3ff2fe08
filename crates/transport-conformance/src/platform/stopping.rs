//! Stopping and starting.

use super::{
    PlatformLab,
    service::{Job, WORK},
    stage::{Stage, message, named},
    store,
};
use onceward_testkit::eventually;

/// See the name.
pub async fn what_one_instance_leaves_another_finishes(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let jobs = (0..300).map(|number| Job { number, held: number == 20, ..named("job") });
    let messages: Vec<_> = jobs.map(|job| message(&job).ordered_by("key")).collect();
    let (first, rest) = messages.split_at(100);
    stage.publish("acme", first.to_vec()).await;
    // The twentieth is in hand, and what is behind it waits.
    stage.begun(21).await;
    stage.publish("acme", rest.to_vec()).await;
    let successor = stage.another(false);
    let reins = stage.reins.clone();
    let stopping = stage.stop();
    let (stopped, ()) = tokio::join!(stopping, async {
        tokio::task::yield_now().await;
        reins.let_go();
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

/// See the name.
pub async fn messages_published_while_nobody_runs_are_handled_later(lab: &dyn PlatformLab) {
    let mut stage = Stage::new(lab).await;
    stage.publish("acme", (0..50).map(|number| message(&Job { number, ..named("job") }).ordered_by("key"))).await;
    stage.run();
    stage.publish("acme", (50..100).map(|number| message(&Job { number, ..named("job") }).ordered_by("key"))).await;
    let effects = stage.effects_in_the_end(WORK, 100).await;
    let numbers: Vec<i64> = effects.iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}
