//! The notifications that `onceward.enqueue` sends to other processes, and the notices it returns to its caller.

use onceward_broker::BusKind;
use onceward_db::{Db, listen::ListenEvent, migrate::migrate};
use onceward_message_log::{MIGRATIONS, declare::declare};
use onceward_testkit::{PATIENCE, TestDb};
use onceward_topology::{Exchange, Queue, Topology};
use tokio_postgres::{AsyncMessage, Client, NoTls};

async fn two_queues() -> TestDb {
    let database = TestDb::empty().await;
    let config = database.config();
    migrate(&config, &[MIGRATIONS]).await.expect("the migrations apply");
    let topology = Topology::new()
        .exchange(Exchange::topic("things"))
        .queue(Queue::work("q.a").shards(1))
        .queue(Queue::work("q.b").shards(1))
        .bind("things", "a", "q.a")
        .bind("things", "b", "q.b");
    declare(&config, &topology, BusKind::Postgres).await.expect("the topology is declared");
    database
}

fn enqueue(key: &str) -> String {
    format!("SELECT onceward.enqueue('acme', 'things:{key}', 'thing.happened.v1', '{{}}')")
}

async fn lane_of(owner: &Client, queue: &str) -> String {
    let lane = "SELECT l.id::text FROM onceward.lane l JOIN onceward.queue q ON q.id = l.queue_id WHERE q.name = $1";
    owner.query_one(lane, &[&queue]).await.expect("the lane was made").get(0)
}

#[tokio::test]
async fn every_queue_that_a_transaction_publishes_to_is_woken() {
    let database = two_queues().await;
    let owner = database.owner().await;
    let db = Db::connect(database.config()).expect("the settings are valid");
    let mut listener = db.listen("onceward_wake");
    let listening = async { while listener.next().await != Some(ListenEvent::Connected) {} };
    tokio::time::timeout(PATIENCE, listening).await.expect("it listens");
    // A single batch, so that all of it happens within the time in which a queue is not notified again.
    let batch: Vec<String> = ["nobody", "a", "b", "a", "b"].iter().map(|key| enqueue(key)).collect();
    owner.batch_execute(&format!("BEGIN; {}; COMMIT", batch.join("; "))).await.expect("all are published");
    let wanted = [lane_of(&owner, "q.a").await, lane_of(&owner, "q.b").await];
    let mut woken = Vec::new();
    let receiving = async {
        while !wanted.iter().all(|lane| woken.contains(lane)) {
            match listener.next().await {
                Some(ListenEvent::Notified(lanes)) => woken.extend(lanes.split(',').map(str::to_owned)),
                other => panic!("a notification, not {other:?}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, receiving).await.unwrap_or_else(|_| panic!("both queues are woken"));
    assert!(woken.iter().all(|lane| wanted.contains(lane)), "no reader is woken for unrouted messages: {woken:?}");
}

#[tokio::test]
async fn a_later_commit_wakes_readers_although_its_session_has_just_notified() {
    let database = two_queues().await;
    let owner = database.owner().await;
    let db = Db::connect(database.config()).expect("the settings are valid");
    let mut listener = db.listen("onceward_wake");
    let listening = async { while listener.next().await != Some(ListenEvent::Connected) {} };
    tokio::time::timeout(PATIENCE, listening).await.expect("it listens");
    // The lane is created first, so that nothing happens between the two.
    owner.batch_execute(&enqueue("a")).await.expect("it is published");
    let (at_once, later) = (enqueue("a"), enqueue("a"));
    let (first, begun, second) =
        tokio::join!(owner.batch_execute(&at_once), owner.batch_execute("BEGIN"), owner.batch_execute(&later));
    first.and(begun).and(second).expect("both are published");
    database.owner().await.batch_execute("NOTIFY onceward_wake, 'so far'").await.expect("it is sent");
    let so_far = Some(ListenEvent::Notified("so far".to_owned()));
    let receiving = async { while listener.next().await != so_far {} };
    tokio::time::timeout(PATIENCE, receiving).await.expect("all notifications so far arrive");
    owner.batch_execute("COMMIT").await.expect("it commits");
    let event = tokio::time::timeout(PATIENCE, listener.next()).await.expect("its commit wakes the queue");
    assert_eq!(event, Some(ListenEvent::Notified(lane_of(&owner, "q.a").await)));
}

#[tokio::test]
async fn enqueueing_an_unrouted_message_returns_a_notice() {
    let database = two_queues().await;
    let (client, mut connection) = tokio_postgres::connect(&database.config().url, NoTls).await.expect("a connection");
    let (sender, mut notices) = tokio::sync::mpsc::unbounded_channel();
    let driving = tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message {
                let _ = sender.send(notice);
            }
        }
    });
    client.batch_execute(&enqueue("a")).await.expect("it is published");
    client.batch_execute(&enqueue("nobody")).await.expect("it is published");
    drop(client);
    driving.await.expect("the connection ends");
    let notice = notices.recv().await.expect("a notice");
    assert!(notice.message().contains("no queue is bound to \"things:nobody\""), "{notice:?}");
    assert!(notice.hint().is_some_and(|hint| hint.contains("outbox status")), "{notice:?}");
    assert!(notices.recv().await.is_none(), "only that one");
}
