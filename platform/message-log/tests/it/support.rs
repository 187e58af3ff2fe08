//! A database with one queue, and helpers to publish to it, handle its messages and relay its outbox.

use onceward_broker::{BusKind, Parcel, Settlement};
use onceward_db::{Db, migrate::migrate};
use onceward_message_log::{
    MIGRATIONS, MessageLog, MessageLogConfig, QueueReader, Subscription,
    declare::declare,
    outbox_reader::{OutboxReader, ParcelBuilder},
};
use onceward_testkit::{PATIENCE, TestDb};
use onceward_topology::{Exchange, Queue, Topology};
use serde_json::Value;
use std::time::Duration;
use tokio_postgres::Client;

pub const A_MOMENT: Duration = Duration::from_millis(20);
pub const QUEUE: &str = "q.things";

pub async fn database_on(kind: BusKind) -> TestDb {
    let database = TestDb::empty().await;
    let config = database.config();
    migrate(&config, &[MIGRATIONS]).await.expect("the migrations apply");
    declare(&config, &topology(), kind).await.expect("the topology is declared");
    database
}

pub fn topology() -> Topology {
    Topology::new().exchange(Exchange::topic("things")).queue(Queue::work(QUEUE).shards(1)).bind("things", "#", QUEUE)
}

pub fn message_log(database: &TestDb) -> MessageLog {
    let db = Db::connect(database.config()).expect("the settings are valid");
    MessageLog::new(db, MessageLogConfig { poll_ms: 20, ..MessageLogConfig::default() })
}

pub async fn open_queue(database: &TestDb) -> QueueReader {
    let subscription = Subscription {
        consumer: "reader".into(),
        queue: QUEUE.into(),
        ordered: true,
        holds_keys: false,
        concurrency: 1,
        isolate_killers: true,
    };
    message_log(database).open(subscription).await.expect("the queue is declared")
}

pub async fn publish(client: &Client, number: i32) {
    let enqueue =
        "SELECT onceward.enqueue('acme', 'things:thing', 'thing.happened.v1', jsonb_build_object('n', $1::int))";
    client.execute(enqueue, &[&number]).await.expect("it is published");
}

/// Handles one message of each kind per turn until the queue has no more work. Returns the handled numbers.
pub async fn handle_all(reader: &QueueReader, owner: &Client) -> Vec<i64> {
    let is_idle = "SELECT NOT EXISTS (SELECT FROM onceward.queue q, onceward.lanes_with_work(q.id))";
    let mut handled = Vec::new();
    let handling = async {
        while !owner.query_one(is_idle, &[]).await.expect("the query succeeds").get::<_, bool>(0) {
            match reader.take(1).await.expect("a turn can be taken") {
                Some(turn) => {
                    let deliveries = turn.deliveries();
                    let numbers = deliveries.iter().map(|d| &d.envelope.payload["n"]);
                    handled.extend(numbers.filter_map(|number| number.as_i64()));
                    let done = vec![Settlement::Done; deliveries.len()];
                    turn.settle(&done).await.expect("the turn is settled");
                }
                None => reader.wait(A_MOMENT).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, handling).await.expect("all messages are handled");
    handled
}

pub async fn count(owner: &Client, statement: &str) -> i64 {
    owner.query_one(statement, &[]).await.expect("the query succeeds").get(0)
}

pub fn number(parcel: &Parcel) -> i64 {
    let body: Value = serde_json::from_slice(&parcel.body).expect("the body is JSON");
    body["payload"]["n"].as_i64().expect("a number")
}

/// Publishes to the same lane of the outbox as every other call without waiting for any of them: the keys share a shard
/// but not a lock.
pub async fn publish_to_one_lane(client: &Client, number: i32) {
    let key = "SELECT key::text FROM generate_series(1, 1000) AS key
               WHERE ('x' || encode(substring(onceward.scoped_hash('acme', key::text) FROM 1 FOR 4), 'hex'))::bit(32)::bigint % 8 = 0
               ORDER BY key OFFSET $1 LIMIT 1";
    let key: String = client.query_one(key, &[&i64::from(number)]).await.expect("there are enough").get(0);
    let enqueue = "SELECT onceward.enqueue('acme', 'things:thing', 'thing.happened.v1', jsonb_build_object('n', $1::int), p_ordering_key => $2)";
    client.execute(enqueue, &[&number, &key]).await.expect("it is published");
}

/// Takes messages until none are waiting, and settles each as `settle` returns.
pub async fn relay_all(database: &TestDb, mut settle: impl FnMut(Parcel) -> Settlement) {
    let owner = database.owner().await;
    let outbox = OutboxReader::open(&message_log(database), 1).await.expect("the outbox is a queue");
    let waiting = "SELECT count(*) FROM onceward.queue q CROSS JOIN onceward.lanes_with_work(q.id)";
    let mut parcels = ParcelBuilder::new(topology());
    let relaying = async {
        while count(&owner, waiting).await > 0 {
            match outbox.take(10, 1, &mut parcels).await.expect("a turn can be taken") {
                Some(turn) => {
                    let settlements: Vec<Settlement> = turn.parcels().into_iter().map(&mut settle).collect();
                    turn.settle(&settlements).await.expect("it is settled");
                }
                None => outbox.wait(A_MOMENT).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, relaying).await.expect("all messages are relayed");
}
