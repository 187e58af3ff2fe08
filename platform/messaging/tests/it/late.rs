//! Sequence numbers are not in commit order: late commits are handled, and open transactions block nobody.

use crate::support::{
    Probe, consumer, drained, effects, effects_reach, job, one_lane, platform, publish, publish_names, running,
};
use onceward_testkit::TestDb;
use tokio_postgres::Client;

/// Opens a transaction that has its sequence number and is not committed. Its lane exists: SQL callers create a lane
/// in their own transaction, and others that need the new lane wait for it.
async fn open_with(database: &TestDb, names: &[&str]) -> Client {
    let client = database.owner().await;
    let lane = "SELECT onceward.lane_of(id, 'acme', 0::smallint, 0::smallint) FROM onceward.queue";
    client.batch_execute(lane).await.expect("the lane is there");
    client.batch_execute("BEGIN").await.expect("it begins");
    for name in names {
        let payload = serde_json::json!({"name": name});
        crate::support::enqueue(&client, "acme", "probe.job.v1", &payload).await;
    }
    client
}

async fn commit(client: &Client) {
    client.batch_execute("COMMIT").await.expect("it commits");
}

#[tokio::test]
async fn a_message_that_commits_after_later_numbers_were_handled_is_handled() {
    let (probe, _calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let late = open_with(platform.database(), &["late"]).await;
    publish_names(platform.db(), "acme", &["early"]).await;
    assert_eq!(effects_reach(&owner, 1).await, ["early"]);
    commit(&late).await;
    assert_eq!(effects_reach(&owner, 2).await, ["early", "late"]);
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["early", "late"]);
}

#[tokio::test]
async fn several_late_transactions_are_handled_in_whatever_order_they_commit() {
    let (probe, _calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe).prefetch(2)).await;
    let owner = platform.database().owner().await;
    let first = open_with(platform.database(), &["a1", "a2", "a3"]).await;
    let second = open_with(platform.database(), &["b1", "b2", "b3"]).await;
    let never = open_with(platform.database(), &["never"]).await;
    publish_names(platform.db(), "acme", &["early"]).await;
    effects_reach(&owner, 1).await;
    commit(&second).await;
    assert_eq!(effects_reach(&owner, 4).await, ["early", "b1", "b2", "b3"]);
    publish_names(platform.db(), "acme", &["between"]).await;
    assert_eq!(effects_reach(&owner, 5).await[4], "between");
    never.batch_execute("ROLLBACK").await.expect("it rolls back");
    commit(&first).await;
    assert_eq!(effects_reach(&owner, 8).await[5..], ["a1", "a2", "a3"]);
    drained(&owner).await;
    assert_eq!(effects(&owner).await.len(), 8);
}

#[tokio::test]
async fn a_late_message_is_handled_while_another_writer_stays_open() {
    let (probe, _calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let long = open_with(platform.database(), &["long"]).await;
    let late = open_with(platform.database(), &["late"]).await;
    publish_names(platform.db(), "acme", &["early"]).await;
    effects_reach(&owner, 1).await;
    commit(&late).await;
    assert_eq!(effects_reach(&owner, 2).await, ["early", "late"]);
    // The long transaction still blocks nobody, and is not skipped over many turns.
    for n in 0..20 {
        publish_names(platform.db(), "acme", &[&format!("m{n}")]).await;
        effects_reach(&owner, 3 + n).await;
    }
    commit(&long).await;
    assert_eq!(effects_reach(&owner, 23).await[22], "long");
}

#[tokio::test]
async fn a_transaction_that_published_only_after_the_lane_was_read_is_not_missed() {
    let (probe, _calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let slow = platform.database().owner().await;
    slow.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.expect("it has its id");
    publish_names(platform.db(), "acme", &["one", "two"]).await;
    effects_reach(&owner, 2).await;
    crate::support::enqueue(&slow, "acme", "probe.job.v1", &serde_json::json!({"name": "slow"})).await;
    publish_names(platform.db(), "acme", &["three"]).await;
    effects_reach(&owner, 3).await;
    commit(&slow).await;
    assert_eq!(effects_reach(&owner, 4).await, ["one", "two", "three", "slow"]);
}

#[tokio::test]
async fn a_late_message_without_a_wake_up_is_found_by_polling() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    owner.batch_execute("REVOKE EXECUTE ON FUNCTION pg_notify FROM PUBLIC").await.expect("the owner may");
    let late = open_with(platform.database(), &["late"]).await;
    publish(platform.db(), "acme", [job("acme", "early")]).await;
    platform.run_consumers();
    effects_reach(&owner, 1).await;
    commit(&late).await;
    assert_eq!(effects_reach(&owner, 2).await, ["early", "late"]);
}
