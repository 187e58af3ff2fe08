//! What the model takes for granted about the SQL functions, asked of a real PostgreSQL.

use onceward_db::{Db, migrate::migrate};
use onceward_testkit::{PATIENCE, TestDb};
use onceward_topology::{Exchange, Queue, Topology};
use onceward_transport::{BusKind, Intake, Settlement, Subscription, Transport};
use onceward_transport_postgres::{MIGRATIONS, PostgresBusConfig, PostgresTransport, declare::declare};
use std::time::Duration;
use tokio_postgres::{Client, error::SqlState};

pub const QUEUE: &str = "q.things";

async fn database() -> TestDb {
    database_on(BusKind::Postgres).await
}

pub async fn database_on(kind: BusKind) -> TestDb {
    let database = TestDb::empty().await;
    let config = database.config();
    migrate(&config, &[MIGRATIONS]).await.expect("the migrations apply");
    let topology = Topology::new()
        .exchange(Exchange::topic("things"))
        .queue(Queue::work(QUEUE).shards(1))
        .bind("things", "#", QUEUE);
    declare(&config, &topology, kind).await.expect("the topology is declared");
    database
}

pub fn bus(database: &TestDb) -> PostgresTransport {
    let db = Db::connect(database.config()).expect("the settings are valid");
    PostgresTransport::new(db, PostgresBusConfig { poll_ms: 20, ..PostgresBusConfig::default() })
}

pub async fn reader(database: &TestDb) -> Box<dyn Intake> {
    let subscription = Subscription {
        consumer: "reader".into(),
        queue: QUEUE.into(),
        ordered: true,
        concurrency: 1,
        isolate_killers: true,
    };
    bus(database).open(subscription).await.expect("the queue is declared")
}

pub async fn publish(client: &Client, number: i32) {
    let enqueue =
        "SELECT onceward.enqueue('acme', 'things:thing', 'thing.happened.v1', jsonb_build_object('n', $1::int))";
    client.execute(enqueue, &[&number]).await.expect("it is published");
}

/// Handles, one message of a kind a turn, until the bus sees no more work. Gives what was handled.
pub async fn handle_all(intake: &dyn Intake, owner: &Client) -> Vec<i64> {
    let at_rest = "SELECT NOT EXISTS (SELECT FROM onceward.queue q, onceward.lanes_with_work(q.id))";
    let mut handled = Vec::new();
    let handling = async {
        while !owner.query_one(at_rest, &[]).await.expect("can be asked").get::<_, bool>(0) {
            match intake.take(1).await.expect("a turn can be taken") {
                Some(turn) => {
                    let deliveries = turn.deliveries();
                    let numbers = deliveries.iter().map(|d| &d.envelope.payload["n"]);
                    handled.extend(numbers.filter_map(|number| number.as_i64()));
                    let done = vec![Settlement::Done; deliveries.len()];
                    turn.settle(done).await.expect("the turn is settled");
                }
                None => intake.wait(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, handling).await.expect("the lane comes to rest");
    handled
}

#[tokio::test]
async fn a_transaction_with_late_and_new_messages_is_handled_once_by_turns_that_take_a_part_of_it() {
    let database = database().await;
    let (slow, quick) = (database.owner().await, database.owner().await);
    let intake = reader(&database).await;

    publish(&quick, 0).await; // makes the lane, which others would wait for
    assert_eq!(handle_all(intake.as_ref(), &quick).await, [0]);
    slow.batch_execute("BEGIN").await.expect("begins");
    publish(&slow, 1).await;
    publish(&slow, 2).await;
    publish(&quick, 3).await;
    assert_eq!(handle_all(intake.as_ref(), &quick).await, [3]);
    publish(&slow, 4).await;
    slow.batch_execute("COMMIT").await.expect("commits");

    assert_eq!(handle_all(intake.as_ref(), &quick).await, [1, 2, 4]);
}

#[tokio::test]
async fn messages_put_aside_keep_their_order_among_any_number_of_lanes() {
    let database = database().await;
    let owner = database.owner().await;
    let defer = "SELECT coalesce(bool_and(id > previous), true) FROM (
                     SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY seq) AS previous FROM onceward.defer((
                         SELECT jsonb_agg(jsonb_build_object('lane_id', (SELECT min(id) FROM onceward.lane), 'seq', n,
                             'state', 'parked', 'blocks', true, 'attempts', 0, 'lease', 0, 'ordering_key', 'key',
                             'created_at', now(), 'message', '{}'::jsonb) ORDER BY n)
                         FROM generate_series(1, 20) AS n))) AS put_aside";
    // The planner joins differently as the table grows.
    for lanes in [1, 500, 5_000] {
        let more = format!(
            "INSERT INTO onceward.lane (queue_id, tenant_id, priority, shard)
             SELECT (SELECT id FROM onceward.queue WHERE name = '{QUEUE}'), 'tenant-' || n, 0, 0 FROM generate_series(1, {lanes}) AS n
             ON CONFLICT DO NOTHING; ANALYZE onceward.lane"
        );
        owner.batch_execute(&more).await.expect("there are more lanes");
        let in_order: bool = owner.query_one(defer, &[]).await.expect("are put aside").get(0);
        assert!(in_order, "with {lanes} lanes");
    }
}

#[tokio::test]
async fn a_writer_that_is_turns_behind_is_refused_though_those_turns_are_deleted() {
    let database = database().await;
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
    advance(4).await.expect("the lane goes on");
}
