//! Failed attempts are stored with their errors and times, and reported.

use crate::support::{
    Probe, consumer, count, dead_letters, drained, effects_reach, job, one_lane, publish_names, running, scope,
};
use jiff::Timestamp;
use onceward::{
    Failure,
    message_log::{
        retention::{self, Retention},
        triage,
    },
    outbox,
};
use onceward_cli::story::{self, DeliveryState, StorySearch};
use onceward_testkit::TestPlatform;

/// A platform whose handler fails the first `times` attempts of every message.
async fn failing(times: u32) -> TestPlatform {
    let (probe, _calls) = Probe::new(move |_, seen| {
        Box::pin(async move {
            match seen.attempt <= times {
                true => Err(Failure::transient(format!("no {}", seen.attempt))),
                false => Ok(()),
            }
        })
    });
    running(one_lane(), consumer(probe)).await
}

#[tokio::test]
async fn a_message_that_finally_succeeded_still_shows_its_failed_attempts() {
    let platform = failing(2).await;
    let owner = platform.database().owner().await;
    let before = Timestamp::now();
    let mut tx = platform.db().begin(scope("acme")).await.expect("a connection");
    let correlation = tx.scope().correlation_id.to_string();
    outbox::send(&mut tx, job("acme", "a")).await.expect("it is accepted");
    tx.commit().await.expect("it commits");
    effects_reach(&owner, 1).await;
    drained(&owner).await;
    let search = StorySearch::new(&correlation);
    let story = story::load(platform.db(), platform.platform(), None, search, |_| {}).await.expect("a story");
    let delivery = &story.messages[0].deliveries[0];
    assert_eq!(delivery.state, DeliveryState::Handled);
    let told: Vec<(i32, &str)> =
        delivery.failed_attempts.iter().map(|failed| (failed.attempt, failed.error.as_str())).collect();
    assert_eq!(told, [(1, "no 1"), (2, "no 2")]);
    assert!(
        before <= delivery.failed_attempts[0].at && delivery.failed_attempts[0].at <= delivery.failed_attempts[1].at
    );
    assert!(story::render(&story).contains("attempt 2 failed at"), "{}", story::render(&story));
}

#[tokio::test]
async fn a_dead_letter_keeps_its_failed_attempts_after_its_partition_was_dropped() {
    let platform = failing(9).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    dead_letters(&owner, 1).await;
    owner
        .batch_execute(
            "UPDATE onceward.failed_attempt SET at = at - interval '30 days';
             UPDATE onceward.log_epoch SET opened_at = opened_at - interval '1 day'",
        )
        .await
        .expect("the owner may turn time back");
    let swept = retention::sweep(platform.db(), Retention::default()).await.expect("the sweep succeeds");
    assert_eq!(swept.attempts, 3);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.failed_attempt").await, 0);
    let id = count(&owner, "SELECT id FROM onceward.dead_letters").await;
    let letter = triage::details(platform.db(), &[id]).await.expect("letters").remove(0);
    let errors: Vec<&str> =
        letter.attempt_log.as_array().expect("a list").iter().filter_map(|one| one["error"].as_str()).collect();
    assert_eq!(errors, ["no 1", "no 2", "no 3"]);
}

#[tokio::test]
async fn the_first_and_the_latest_attempts_of_an_endlessly_retried_message_are_kept() {
    let platform = failing(0).await;
    let owner = platform.database().owner().await;
    let note = "SELECT onceward.note_attempts(jsonb_build_array(jsonb_build_object(
                    'event_id', '018f5d3e-7c1b-7000-8000-000000000001', 'queue', 'q', 'attempt', n, 'error', 'no ' || n,
                    'tenant_id', 'acme'))) FROM generate_series(1, 100) AS n";
    owner.batch_execute(note).await.expect("attempts");
    let kept = "SELECT array_agg(attempt ORDER BY attempt) FROM onceward.failed_attempt";
    let kept: Vec<i32> = owner.query_one(kept, &[]).await.expect("a list").get(0);
    assert_eq!(kept, (1..20).chain([100]).collect::<Vec<_>>());
}
