//! The outbox as a relay reads it.

use crate::support::{A_MOMENT, count, database_on, message_log, number, publish, relay_all, topology};
use onceward_broker::{BusKind, DeadReason, Parcel, Settlement, wire};
use onceward_message_log::{
    Subscription,
    outbox_reader::{OutboxReader, OutboxTurn, ParcelBuilder},
    routes::OUTBOX,
};
use onceward_testkit::{PATIENCE, TestDb};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio_postgres::Client;

#[tokio::test]
async fn the_outbox_view_shows_published_waiting_and_refused_messages() {
    let database = database_on(BusKind::RabbitMq).await;
    let owner = database.owner().await;
    for number in 0..3 {
        publish(&owner, number).await;
    }
    assert_eq!(outbox_rows(&owner).await, [(0, false), (0, false), (0, false)]);
    let refused = || Settlement::Retry { after: Duration::from_secs(3600), error: "too large".into() };
    relay_all(&database, |parcel| if number(&parcel) == 1 { refused() } else { Settlement::Done }).await;
    let mut seen = outbox_rows(&owner).await;
    seen.sort_unstable();
    assert_eq!(seen, [(1, false), (1, true), (1, true)], "one was refused and waits, two are published");
    let error =
        "SELECT count(*) FROM onceward.outbox_messages WHERE last_error = 'too large' AND next_retry_at > now()";
    assert_eq!(count(&owner, error).await, 1);
}

#[tokio::test]
async fn a_parcel_packed_from_a_row_equals_one_packed_from_the_whole_message() {
    let database = database_on(BusKind::Kafka).await;
    let owner = database.owner().await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [
        None,
        Some(json!({})),
        Some(
            json!({"traceparent": trace, "actor": {"userId": "u \" 1"}, "extensions": {"a \"b": [1, null], "c": "ß"}}),
        ),
        Some(json!({"traceparent": 7, "actor": "nobody", "extensions": ["none"], "further": 1})),
    ];
    let story = Some("01a1e412-a2f5-74e0-9242-dea96cd15d6b");
    let keys = [
        (None, None, None, None),
        (Some("a \"key\""), Some("k"), Some("story"), Some("cause")),
        (None, Some("ß"), story, None),
    ];
    let enqueue = "SELECT onceward.enqueue('acme', 'things:thing', 'thing.happened.v1', $1, $2, $3, $4, $5, $6)";
    for (number, headers) in headers.iter().enumerate() {
        for (key, ordering, correlation, causation) in keys {
            let key = key.map(|key| format!("{key} {number}"));
            let payload = json!({"n": number, "t": "a \" ß"});
            let published =
                owner.execute(enqueue, &[&payload, &key, &ordering, &correlation, &causation, headers]).await;
            published.expect("it is published");
        }
    }
    let whole = whole_parcels(&database).await;
    assert_eq!(whole.len(), 12);
    let mut packed = Vec::new();
    relay_all(&database, |parcel| {
        packed.push(parcel);
        Settlement::Done
    })
    .await;
    packed.sort_by_key(|parcel| parcel.id);
    assert_eq!(packed, whole);
    let traced = packed.iter().filter(|one| one.headers.get("traceparent") == Some(trace));
    assert_eq!(traced.count(), 3);
}

#[tokio::test]
async fn an_unreadable_message_becomes_a_dead_letter_unchanged_and_its_neighbours_are_relayed() {
    let database = database_on(BusKind::Redis).await;
    let owner = database.owner().await;
    for number in 0..3 {
        publish(&owner, number).await;
    }
    let garble = "UPDATE onceward.message_log SET event_type = 'no such..name' WHERE payload->>'n' = '1'";
    owner.batch_execute(garble).await.expect("it is garbled");
    let mut relayed = Vec::new();
    relay_all(&database, |parcel| {
        relayed.push(number(&parcel));
        Settlement::Done
    })
    .await;
    relayed.sort_unstable();
    assert_eq!(relayed, [0, 2]);
    let letters = "SELECT count(*) FROM onceward.dead_letters
                   WHERE reason = 'malformed' AND event_type = 'no such..name' AND tenant_id = 'acme'
                       AND message->>'payload' = '{\"n\": 1}' AND last_error LIKE '%event type%'";
    assert_eq!(count(&owner, letters).await, 1);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.dead_letters").await, 1);
}

#[tokio::test]
async fn a_parcel_keeps_an_unusual_tenant_and_version() {
    let database = database_on(BusKind::Kafka).await;
    let owner = database.owner().await;
    for number in 0..4 {
        publish(&owner, number).await;
    }
    let unusual = "UPDATE onceward.message_log SET tenant_id = 'other', version = 2 WHERE payload->>'n' = '1';
                   UPDATE onceward.message_log SET tenant_id = 'no tenant' WHERE payload->>'n' = '2'";
    owner.batch_execute(unusual).await.expect("a service in another language wrote them");
    let mut relayed = Vec::new();
    relay_all(&database, |parcel| {
        let body: Value = serde_json::from_slice(&parcel.body).expect("the body is JSON");
        relayed.push((number(&parcel), body["tenantId"].clone(), body["version"].clone()));
        Settlement::Done
    })
    .await;
    relayed.sort_by_key(|(number, ..)| *number);
    assert_eq!(relayed, [(0, json!("acme"), json!(1)), (1, json!("other"), json!(2)), (3, json!("acme"), json!(1))]);
    let letter =
        "SELECT count(*) FROM onceward.dead_letters WHERE tenant_id = 'no tenant' AND last_error LIKE '%tenant id%'";
    assert_eq!(count(&owner, letter).await, 1);
}

#[tokio::test]
async fn relays_do_not_watch_each_other_and_late_commits_are_relayed_later() {
    let database = database_on(BusKind::Kafka).await;
    let [slow, quick, owner] = [database.owner().await, database.owner().await, database.owner().await];
    // Lanes are created on first use, and other publishers wait for the transaction that creates one.
    for number in 0..80 {
        publish(&owner, number).await;
    }
    relay_all(&database, |_| Settlement::Done).await;
    // The transaction that commits has the lower id and the higher numbers, so that no snapshot lists the other.
    quick.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.expect("it has an id");
    slow.batch_execute("BEGIN").await.expect("it begins");
    for number in 0..40 {
        publish(&slow, number).await;
    }
    for number in 40..80 {
        publish(&quick, number).await;
    }
    quick.batch_execute("COMMIT").await.expect("it commits");

    let outbox = OutboxReader::open(&message_log(&database), LANES).await.expect("the outbox is a queue");
    let (other, turn) = (take_one_lane(&outbox).await, take_one_lane(&outbox).await);
    let mut relayed: Vec<i64> = turn.parcels().iter().map(number).collect();
    let settlements: Vec<Settlement> = relayed.iter().map(|_| Settlement::Done).collect();
    turn.settle(&settlements).await.expect("it is settled");
    let open = "SELECT count(*) FROM pg_locks l WHERE l.locktype = 'transactionid' AND l.transactionid IN (SELECT q.xmax FROM onceward.quiet_turn q)";
    assert_eq!(count(&owner, open).await, 1, "the other relay is marked");
    let watched = "SELECT count(*) FROM onceward.lane_turn t, unnest(t.open_xids) AS x
                   WHERE x::text::bigint & 4294967295 IN (SELECT q.xmax::text::bigint FROM onceward.quiet_turn q)";
    assert_eq!(count(&owner, watched).await, 0, "so it is not watched");
    let id = "SELECT pg_current_xact_id_if_assigned()::text";
    let publisher: String = slow.query_one(id, &[]).await.expect("it has an id").get(0);
    let watched = format!("SELECT count(*) FROM onceward.lane_turn WHERE '{publisher}' = ANY (open_xids)");
    assert_eq!(count(&owner, &watched).await, 1, "but the slow publisher is watched");
    drop(other);

    for (so_far, end) in [(40..80, "COMMIT"), (0..80, "SELECT")] {
        relay_all(&database, |parcel| {
            relayed.push(number(&parcel));
            Settlement::Done
        })
        .await;
        relayed.sort_unstable();
        assert_eq!(relayed, so_far.collect::<Vec<i64>>());
        slow.batch_execute(end).await.expect("it commits");
    }
}

#[tokio::test]
async fn only_a_relay_sees_the_messages_to_relay() {
    let database = database_on(BusKind::Kafka).await;
    let owner = database.owner().await;
    publish(&owner, 1).await;
    let seen = "SELECT count(*) FROM onceward.message_to_carry";
    owner.batch_execute("SET ROLE onceward_app").await.expect("the role of services");
    assert_eq!(count(&owner, seen).await, 0, "a session without a tenant sees none");
    owner.batch_execute("SET onceward.tenant_id = 'acme'").await.expect("a tenant");
    assert_eq!(count(&owner, seen).await, 0, "nor does a tenant");
    owner.batch_execute("BEGIN; SET LOCAL onceward.relay = 'on'").await.expect("a relay");
    assert_eq!(count(&owner, seen).await, 1);
    owner.batch_execute("COMMIT").await.expect("it ends");
    assert_eq!(count(&owner, seen).await, 0, "the transaction has ended");
}

/// The number of lanes of the outbox.
const LANES: usize = 8;

async fn take_one_lane(outbox: &OutboxReader) -> OutboxTurn {
    let taking = async {
        loop {
            match outbox.take(100, LANES, &mut ParcelBuilder::new(topology())).await.expect("a turn can be taken") {
                Some(turn) => break turn,
                None => outbox.wait(A_MOMENT).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, taking).await.expect("a lane has messages")
}

#[tokio::test]
async fn a_refused_message_becomes_a_complete_dead_letter_however_deeply_it_is_nested() {
    let database = database_on(BusKind::RabbitMq).await;
    let owner = database.owner().await;
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = json!({"traceparent": trace, "actor": {"userId": "u"}, "extensions": {"a": [1]}});
    let enqueue = "SELECT onceward.enqueue('acme', 'things:thing', 'thing.happened.v1', $1, 'key ' || $2, 'k', 'story', 'cause', $3)";
    for (name, payload) in [("flat", json!({"n": 1})), ("deep", json!({"n": deep}))] {
        owner.execute(enqueue, &[&payload, &name, &headers]).await.expect("it is published");
    }
    let refused = || Settlement::Dead { reason: DeadReason::RefusedByBus, error: "too large".into() };
    relay_all(&database, |_| refused()).await;
    let letters = "SELECT reason, event_type, ordering_key, correlation_id, message->>'topic',
                       message->'headers', coalesce(message->>'payload', message->>'body')
                   FROM onceward.dead_letters ORDER BY reason DESC";
    let letters: Vec<_> =
        owner.query(letters, &[]).await.expect("the query succeeds").iter().map(letter_columns).collect();
    let known = ["thing.happened", "k", "story", "things:thing"];
    let [flat, nested] = &letters[..] else { panic!("two letters, not {letters:?}") };
    assert_eq!(flat, &([&["refused_by_bus"][..], &known].concat().join(" "), Some(headers), "{\"n\": 1}".to_owned()));
    assert_eq!(nested.0, [&["malformed"][..], &known].concat().join(" "));
    assert!(nested.2.contains(&deep.to_string()) && nested.2.contains("\"userId\":\"u\""), "the whole message is kept");
}

fn letter_columns(row: &tokio_postgres::Row) -> (String, Option<Value>, String) {
    let words: Vec<String> = (0..5).map(|column| row.get(column)).collect();
    (words.join(" "), row.get(5), row.get(6))
}

/// Returns attempts and whether it is published, for each row.
async fn outbox_rows(owner: &Client) -> Vec<(i32, bool)> {
    let statement = "SELECT attempt_count, published_at IS NOT NULL FROM onceward.outbox_messages ORDER BY created_at";
    owner.query(statement, &[]).await.expect("the query succeeds").iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Returns the parcels of all waiting messages, built from whole messages and sorted by id. The messages stay in the
/// outbox.
async fn whole_parcels(database: &TestDb) -> Vec<Parcel> {
    let owner = database.owner().await;
    let waiting = count(&owner, "SELECT count(*) FROM onceward.message_log").await;
    let subscription = Subscription {
        consumer: "reader".into(),
        queue: OUTBOX.into(),
        ordered: true,
        holds_keys: false,
        concurrency: 1,
        isolate_killers: false,
    };
    let reader = message_log(database).open(subscription).await.expect("the outbox is a queue");
    let mut turns = Vec::new();
    let mut parcels = Vec::new();
    let reading = async {
        while parcels.len() < usize::try_from(waiting).expect("not less than none") {
            match reader.take(100).await.expect("a turn can be taken") {
                Some(turn) => {
                    let packed = turn.deliveries().iter().map(|one| {
                        let topic = one.topic.parse().expect("a topic");
                        wire::pack(one, Arc::new(topic), true).expect("it can be packed")
                    });
                    parcels.extend(packed);
                    turns.push(turn);
                }
                None => reader.wait(A_MOMENT).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("everything is read");
    drop(turns);
    parcels.sort_by_key(|parcel| parcel.id);
    parcels
}
