//! The transactional consumer: effects, follow-up messages and settlement in one commit.

use crate::support::{
    Probe, consumer, count, dead_letters, drained, effects, effects_reach, job, one_lane, platform, publish,
    publish_names, running,
};
use onceward::{Failure, NewMessage, outbox};
use serde_json::json;

#[tokio::test]
async fn a_message_is_handled_once_and_never_again() {
    let (probe, mut calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let names: Vec<String> = (0..200).map(|n| format!("m{n}")).collect();
    publish(platform.db(), "acme", names.iter().map(|name| job("acme", name))).await;
    let (mut second, stop) = platform.another_instance();
    platform.run_consumers();
    second.run_consumers();
    drained(&owner).await;
    let mut handled = effects(&owner).await;
    handled.sort_unstable();
    let mut expected = names.clone();
    expected.sort_unstable();
    assert_eq!(handled, expected);
    assert_eq!(calls.drain(), 200, "a message was handed out twice");
    stop.cancel();
    assert!(second.finished().await);
}

#[tokio::test]
async fn messages_of_a_handler_commit_with_its_effect_and_continue_its_story() {
    let (probe, _calls) = Probe::new(|tx, seen| {
        Box::pin(async move {
            if seen.name == "first" {
                outbox::send(tx, job("acme", "second")).await?;
            }
            Ok(())
        })
    });
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["first"]).await;
    assert_eq!(effects_reach(&owner, 2).await, ["first", "second"]);
    let row = owner
        .query_one(
            "SELECT s.correlation_id = f.correlation_id, s.causation_id = f.id::text
             FROM onceward.outbox_messages f, onceward.outbox_messages s
             WHERE f.payload->>'name' = 'first' AND s.payload->>'name' = 'second'",
            &[],
        )
        .await
        .expect("both are in the log");
    assert!(row.get::<_, bool>(0), "the story's id was lost");
    assert!(row.get::<_, bool>(1), "the cause was lost");
}

#[tokio::test]
async fn a_handler_whose_second_publish_is_refused_leaves_neither_effect_nor_message() {
    let (probe, _calls) = Probe::new(|tx, seen| {
        Box::pin(async move {
            if seen.name == "parent" {
                outbox::send(tx, job("acme", "child")).await?;
                let broken = NewMessage::new("probe.job.v1", "probe.events:tenant.acme.job", json!({"name": 1}));
                outbox::send(tx, broken).await?;
            }
            Ok(())
        })
    });
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["parent", "neighbour"]).await;
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("rejected", 1));
    assert!(dead[0].last_error.as_deref().is_some_and(|error| error.contains("/name")), "{dead:?}");
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["neighbour"]);
    let children = "SELECT count(*) FROM onceward.message_log WHERE payload->>'name' = 'child'";
    assert_eq!(count(&owner, children).await, 0);
}

#[tokio::test]
async fn one_bad_message_does_not_affect_its_neighbours() {
    let (probe, mut calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            if seen.name == "bad" {
                return Err(Failure::transient(format!("attempt {}", seen.attempt)));
            }
            Ok(())
        })
    });
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "b", "bad", "c", "d"]).await;
    platform.run_consumers();
    // The turn is first handled as a whole, then one by one: both passes reach the bad message in its place.
    assert_eq!(calls.names(8).await, ["a", "b", "bad", "a", "b", "bad", "c", "d"]);
    let dead = dead_letters(&owner, 1).await.remove(0);
    assert_eq!(effects(&owner).await, ["a", "b", "c", "d"]);
    let turns = "SELECT count(DISTINCT xmin::text) FROM probe.effect";
    assert_eq!(count(&owner, turns).await, 4, "each neighbour has a savepoint of its own");
    assert_eq!((dead.name.as_deref(), dead.tenant.as_str()), (Some("bad"), "acme"));
    assert_eq!((dead.reason.as_str(), dead.attempts), ("attempts_exhausted", 3));
    assert_eq!(dead.first_error.as_deref(), Some("attempt 1"));
    assert_eq!(dead.last_error.as_deref(), Some("attempt 3"));
    for field in ["id", "event_type", "version", "topic", "idempotency_key", "correlation_id", "payload", "occurred_at"]
    {
        assert!(!dead.message[field].is_null(), "the dead letter has no {field}: {}", dead.message);
    }
    assert_eq!(dead.message["payload"], json!({"name": "bad", "number": 0}));
}

#[tokio::test]
async fn a_statement_that_fails_in_a_handler_fails_its_message_only() {
    let (probe, _calls) = Probe::new(|tx, seen| {
        Box::pin(async move {
            match seen.name.as_str() {
                "no such table" => tx.query("SELECT FROM probe.nowhere", &[]).await.map(drop)?,
                "null" => tx.query("INSERT INTO probe.counter (tenant_id) VALUES ('acme')", &[]).await.map(drop)?,
                _ => {}
            }
            Ok(())
        })
    });
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "no such table", "b", "null", "c"]).await;
    platform.run_consumers();
    let dead = dead_letters(&owner, 2).await;
    assert!(dead.iter().all(|dead| dead.reason == "attempts_exhausted"), "{dead:?}");
    assert_eq!(effects(&owner).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_handler_that_ignores_a_failed_statement_does_not_succeed() {
    let (probe, _calls) = Probe::new(|tx, seen| {
        Box::pin(async move {
            if seen.name == "swallowed" {
                drop(tx.query("SELECT 1 / 0", &[]).await);
            }
            Ok(())
        })
    });
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "swallowed", "b"]).await;
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!(dead[0].name.as_deref(), Some("swallowed"));
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["a", "b"]);
}
