//! The assumptions of the model about the SQL functions, tested on a real PostgreSQL.

use crate::support::{A_MOMENT, QUEUE, database_on, handle_all, open_queue, publish};
use onceward_broker::BusKind;
use onceward_testkit::{PATIENCE, eventually};
use tokio_postgres::error::SqlState;

#[tokio::test]
async fn a_transaction_with_late_and_new_messages_is_handled_once_by_several_turns() {
    let database = database_on(BusKind::Postgres).await;
    let (slow, quick) = (database.owner().await, database.owner().await);
    let reader = open_queue(&database).await;

    publish(&quick, 0).await; // creates the lane, which others would wait for
    assert_eq!(handle_all(&reader, &quick).await, [0]);
    slow.batch_execute("BEGIN").await.expect("begins");
    publish(&slow, 1).await;
    publish(&slow, 2).await;
    publish(&quick, 3).await;
    assert_eq!(handle_all(&reader, &quick).await, [3]);
    publish(&slow, 4).await;
    slow.batch_execute("COMMIT").await.expect("commits");

    assert_eq!(handle_all(&reader, &quick).await, [1, 2, 4]);
}

#[tokio::test]
async fn deferred_messages_keep_their_order_among_any_number_of_lanes() {
    let database = database_on(BusKind::Postgres).await;
    let owner = database.owner().await;
    let defer = "SELECT coalesce(bool_and(id > previous), true) FROM (
                     SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY seq) AS previous FROM onceward.defer((
                         SELECT jsonb_agg(jsonb_build_object('lane_id', (SELECT min(id) FROM onceward.lane), 'seq', n,
                             'state', 'parked', 'blocks', true, 'attempts', 0, 'lease', 0, 'ordering_key', 'key',
                             'created_at', now(), 'message', '{}'::jsonb) ORDER BY n)
                         FROM generate_series(1, 20) AS n))) AS put_aside";
    // The planner chooses different joins as the table grows.
    for lanes in [1, 500, 5_000] {
        let more = format!(
            "INSERT INTO onceward.lane (queue_id, tenant_id, priority, shard)
             SELECT (SELECT id FROM onceward.queue WHERE name = '{QUEUE}'), 'tenant-' || n, 0, 0 FROM generate_series(1, {lanes}) AS n
             ON CONFLICT DO NOTHING; ANALYZE onceward.lane"
        );
        owner.batch_execute(&more).await.expect("there are more lanes");
        let in_order: bool = owner.query_one(defer, &[]).await.expect("they are deferred").get(0);
        assert!(in_order, "with {lanes} lanes");
    }
}

#[tokio::test]
async fn a_writer_that_is_several_turns_behind_is_refused_although_those_turns_are_deleted() {
    let database = database_on(BusKind::Postgres).await;
    let owner = database.owner().await;
    let advance = |turn: i64| {
        let call =
            format!(r#"SELECT onceward.advance('{{1}}', '{{{turn}}}', '{{5}}', '{{"{{}}"}}', '{{"{{}}"}}', '{{0}}')"#);
        let owner = &owner;
        async move { owner.batch_execute(&call).await }
    };
    for turn in 1..=3 {
        advance(turn).await.expect("turns follow each other");
    }
    for behind in 1..=3 {
        let refused = advance(behind).await.expect_err("the lane has moved on");
        assert_eq!(refused.code(), Some(&SqlState::UNIQUE_VIOLATION));
    }
    advance(4).await.expect("the next turn is accepted");
}

#[tokio::test]
async fn a_turn_whose_start_cannot_be_recorded_leaves_no_connection_in_a_transaction() {
    let database = database_on(BusKind::Postgres).await;
    let owner = database.owner().await;
    let reader = open_queue(&database).await;
    for number in 0..3 {
        publish(&owner, number).await;
    }
    let constraint = "ALTER TABLE onceward.turn_start ADD CONSTRAINT broken CHECK (false) NOT VALID";
    owner.batch_execute(constraint).await.expect("no start can be recorded");
    let failing = async {
        loop {
            match reader.take(1).await {
                Err(error) => break error,
                Ok(turn) => assert!(turn.is_none(), "its start was not recorded"),
            }
            reader.wait(A_MOMENT).await;
        }
    };
    let error = tokio::time::timeout(PATIENCE, failing).await.expect("a turn is attempted");
    assert!(error.to_string().contains("23514"), "{error}");
    let aborted = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE '%aborted%'";
    // A separate task rolls the turn itself back when it is dropped.
    eventually("no connection is in an aborted transaction", || async {
        (owner.query_one(aborted, &[]).await.ok()?.get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    owner
        .batch_execute("ALTER TABLE onceward.turn_start DROP CONSTRAINT broken")
        .await
        .expect("starts can be recorded again");
    let mut handled = handle_all(&reader, &owner).await;
    handled.sort_unstable();
    assert_eq!(handled, [0, 1, 2]);
}
