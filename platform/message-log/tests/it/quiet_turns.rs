//! Relays do not wait for the transactions of other relays, but for all others.

use crate::support::{count, database_on, number, publish, publish_to_one_lane, relay_all};
use onceward_broker::{BusKind, Settlement};
use tokio_postgres::error::SqlState;

#[tokio::test]
async fn no_lock_of_another_session_hides_an_open_publisher_from_a_relay() {
    let database = database_on(BusKind::Kafka).await;
    let [slow, quick, other] = [database.owner().await, database.owner().await, database.owner().await];
    // The lane is created on first use, and other publishers wait for the transaction that creates it.
    publish_to_one_lane(&quick, 0).await;
    relay_all(&database, |_| Settlement::Done).await;
    slow.batch_execute("BEGIN").await.expect("it begins");
    publish_to_one_lane(&slow, 1).await;
    let id: i64 = count(&slow, "SELECT pg_current_xact_id()::text::bigint").await;
    let half = id & 0xFFFF_FFFF;
    other.batch_execute("SET ROLE onceward_app").await.expect("the role of services");
    for class in 19_000..19_100 {
        let hold = format!("SELECT pg_advisory_lock({class}, ({half}::bigint << 32 >> 32)::int)");
        other.batch_execute(&hold).await.expect("any session may take any advisory lock");
    }
    publish_to_one_lane(&quick, 2).await;
    let mut relayed = Vec::new();
    for _ in 0..2 {
        relay_all(&database, |parcel| {
            relayed.push(number(&parcel));
            Settlement::Done
        })
        .await;
        slow.batch_execute("COMMIT").await.expect("it commits, or has");
    }
    assert_eq!(relayed, [2, 1], "the late commit is relayed later");
}

#[tokio::test]
async fn the_role_of_services_cannot_mark_a_transaction_as_one_that_publishes_nothing() {
    let database = database_on(BusKind::Kafka).await;
    let service = database.owner().await;
    service.batch_execute("SET ROLE onceward_app").await.expect("the role of services");
    for attempt in ["SELECT FROM onceward.quiet_turn FOR UPDATE", "SELECT onceward.mark_quiet()"] {
        let refused = service.batch_execute(attempt).await.expect_err("only the engine may do that");
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{attempt}");
    }
}

/// The statement of a relay's turn, in all lanes of the outbox.
const MARK: &str = "SELECT onceward.places(ARRAY(SELECT generate_series(1, 100)), 1, true)";

#[tokio::test]
async fn a_transaction_that_read_as_a_relay_cannot_publish() {
    let database = database_on(BusKind::Kafka).await;
    let service = database.owner().await;
    publish(&service, 0).await;
    service.batch_execute("SET ROLE onceward_app").await.expect("the role of services");
    let enqueue = "SELECT onceward.enqueue('acme', 'things:thing', 'thing.happened.v1', '{}')";
    let delayed = "SELECT onceward.enqueue('acme', 'things:thing', 'thing.happened.v1', '{}', p_delay => '1 s')";
    let land = "SELECT onceward.land('c', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')";
    for attempt in [enqueue, delayed, land] {
        service.batch_execute(&format!("BEGIN; {MARK}")).await.expect("any session may call the functions of relays");
        let refused = service.batch_execute(attempt).await.expect_err("no reader would wait for it");
        assert_eq!(refused.code().map(SqlState::code), Some("OW006"), "{attempt}");
        service.batch_execute("ROLLBACK").await.expect("it ends");
        service.batch_execute(attempt).await.expect("it succeeds in a transaction of its own");
    }
}

#[tokio::test]
async fn a_publisher_that_reads_as_a_relay_afterwards_is_still_waited_for() {
    let database = database_on(BusKind::Kafka).await;
    let [slow, quick] = [database.owner().await, database.owner().await];
    // The lane is created on first use, and other publishers wait for the transaction that creates it.
    publish_to_one_lane(&quick, 0).await;
    relay_all(&database, |_| Settlement::Done).await;
    slow.batch_execute("BEGIN").await.expect("it begins");
    publish_to_one_lane(&slow, 1).await;
    slow.batch_execute(MARK).await.expect("any session may call the functions of relays");
    publish_to_one_lane(&quick, 2).await;
    let mut relayed = Vec::new();
    for _ in 0..2 {
        relay_all(&database, |parcel| {
            relayed.push(number(&parcel));
            Settlement::Done
        })
        .await;
        slow.batch_execute("COMMIT").await.expect("it commits, or has");
    }
    assert_eq!(relayed, [2, 1], "the late commit is relayed later");
}

#[tokio::test]
async fn relays_without_a_free_mark_relay_without_one() {
    let database = database_on(BusKind::Kafka).await;
    let [others, owner] = [database.owner().await, database.owner().await];
    others.batch_execute("BEGIN; SELECT FROM onceward.quiet_turn FOR UPDATE").await.expect("all marks are taken");
    assert_eq!(count(&owner, "SELECT onceward.mark_quiet()::int::bigint").await, 0);
    publish(&owner, 1).await;
    let mut relayed = Vec::new();
    relay_all(&database, |parcel| {
        relayed.push(number(&parcel));
        Settlement::Done
    })
    .await;
    assert_eq!(relayed, [1]);
}
