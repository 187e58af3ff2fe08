//! What the database records about an external bus: how far it was read, and since when messages have been waiting
//! there.

use crate::support::{QUEUE, bare_service, one_lane};
use jiff::Timestamp;
use onceward::{
    broker::{Position, PositionStore},
    message_log::{positions::PostgresPositionStore, stats::record_backlogs},
};
use onceward_testkit::TestPlatform;
use std::time::Duration;
use tokio_postgres::Client;

async fn platform() -> (TestPlatform, Client) {
    let platform = TestPlatform::new(vec![bare_service(one_lane())]).await;
    let owner = platform.database().owner().await;
    (platform, owner)
}

async fn oldest(platform: &TestPlatform, waiting: u64, in_flight: usize) -> Option<Timestamp> {
    let counts = [(QUEUE.to_owned(), waiting)];
    let noted = record_backlogs(platform.db(), &counts, Duration::ZERO, in_flight).await.expect("it is recorded");
    noted.get(QUEUE).copied()
}

async fn land(owner: &Client, count: i64) {
    owner.execute("SELECT onceward.count_landed($1, $2)", &[&QUEUE, &count]).await.expect("it is counted");
}

async fn now(owner: &Client) -> Timestamp {
    owner.query_one("SELECT clock_timestamp()", &[]).await.expect("a time").get(0)
}

#[tokio::test]
async fn messages_wait_since_their_queue_was_last_seen_empty() {
    let (platform, owner) = platform().await;
    let before = now(&owner).await;
    assert_eq!(oldest(&platform, 0, 0).await, None);
    let empty = now(&owner).await;
    let since = oldest(&platform, 5, 0).await.expect("messages wait");
    assert!(before <= since && since <= empty, "{before} {since} {empty}");
    assert_eq!(oldest(&platform, 900, 0).await, Some(since), "nothing has landed");
    assert_eq!(oldest(&platform, 0, 0).await, None);
}

#[tokio::test]
async fn messages_wait_since_they_were_first_seen_if_the_queue_was_never_seen_empty() {
    let (platform, owner) = platform().await;
    let before = now(&owner).await;
    assert!(oldest(&platform, 5, 0).await.is_some_and(|since| since >= before));
}

#[tokio::test]
async fn once_all_waiting_messages_have_landed_the_rest_is_younger() {
    let (platform, owner) = platform().await;
    assert_eq!(oldest(&platform, 0, 0).await, None);
    let since = oldest(&platform, 5, 0).await;
    land(&owner, 4).await;
    assert_eq!(oldest(&platform, 5, 0).await, since, "one of them may wait still");
    land(&owner, 1).await;
    let mark = oldest(&platform, 5, 0).await;
    assert!(mark > since, "{mark:?} {since:?}");
    // The next mark is the current time.
    land(&owner, 5).await;
    assert!(oldest(&platform, 5, 0).await > mark);
}

#[tokio::test]
async fn messages_in_flight_do_not_count_as_waiting() {
    let (platform, owner) = platform().await;
    assert_eq!(oldest(&platform, 0, 10).await, None);
    let since = oldest(&platform, 5, 10).await;
    land(&owner, 14).await;
    assert_eq!(oldest(&platform, 5, 10).await, since);
    land(&owner, 1).await;
    assert!(oldest(&platform, 5, 10).await > since);
}

#[tokio::test]
async fn a_position_moves_back_only_when_it_is_replaced() {
    let (platform, owner) = platform().await;
    let positions = PostgresPositionStore::new(platform.db().clone());
    let at = |queue: &str, next_offset| Position {
        queue: queue.to_owned(),
        source: "events".to_owned(),
        partition: 3,
        next_offset,
        last_ms: next_offset * 10,
    };
    let load = async || positions.load(&["q".to_owned()]).await.expect("they are there");
    for (next_offset, replace, wanted) in [(7, false, 7), (5, false, 7), (9, false, 9), (2, true, 2)] {
        positions.save(&[at("q", next_offset), at("other", 1)], replace).await.expect("they are written");
        assert_eq!(load().await, [at("q", wanted)]);
    }
    let forgotten = owner.query_one("SELECT onceward.forget_positions('q')", &[]).await.expect("they are deleted");
    assert_eq!(forgotten.get::<_, i64>(0), 1);
    assert_eq!(load().await, []);
}
