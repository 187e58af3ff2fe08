//! Landing messages from an external bus.

use crate::support::{QUEUE, count, database_on, handle_all, message_log, number, open_queue, publish, relay_all};
use onceward_broker::{Arrival, BusKind, Settlement, wire};
use onceward_message_log::{
    MessageLog,
    land::{LandedBatch, ReceiverProgress, land},
};
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

const CONSUMER: &str = "reader";

fn arrival(number: i64) -> Arrival {
    let id = Uuid::from_u128(0x7000_0000_0000_8000_0000_0000_0000_u128 + u128::from(number.unsigned_abs()));
    arrival_of(id, number)
}

fn arrival_of(id: Uuid, number: i64) -> Arrival {
    let body = json!({
        "eventId": id, "type": "thing.happened", "version": 1, "schemaVersion": 1, "tenantId": "acme",
        "correlationId": "story", "idempotencyKey": format!("key-{number}"), "occurredAt": "2026-11-16T00:00:00Z",
        "payload": {"n": number},
    });
    with_body(body.to_string().as_bytes())
}

fn with_body(body: &[u8]) -> Arrival {
    let headers = [(wire::TOPIC, "things:thing"), (wire::ORDERING_KEY, "k")];
    Arrival {
        headers: headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        body: body.to_vec().into(),
        redeliveries: 0,
    }
}

async fn land_all(log: &MessageLog, arrivals: &[Arrival]) -> LandedBatch {
    let queue = log.router().queue(QUEUE).await.expect("it is declared");
    land(log, CONSUMER, &queue, arrivals, &ReceiverProgress::default()).await.expect("they land")
}

async fn landed(owner: &Client) -> i64 {
    count(owner, "SELECT count(*) FROM onceward.message_log WHERE copy = 1").await
}

#[tokio::test]
async fn landed_messages_are_handled_once_and_in_order_however_often_they_arrive() {
    let database = database_on(BusKind::RabbitMq).await;
    let (owner, log) = (database.owner().await, message_log(&database));
    let first: Vec<Arrival> = (0..5).map(arrival).collect();
    assert_eq!(land_all(&log, &first).await, LandedBatch { received: 5, malformed: 0 });
    let again: Vec<Arrival> = (3..8).chain(3..8).map(arrival).collect();
    land_all(&log, &again).await;
    assert_eq!(landed(&owner).await, 8);
    let reader = open_queue(&database).await;
    assert_eq!(handle_all(&reader, &owner).await, (0..8).collect::<Vec<_>>());
    land_all(&log, &first).await;
    assert_eq!(handle_all(&reader, &owner).await, Vec::<i64>::new());
}

#[tokio::test]
async fn concurrent_receivers_of_the_same_messages_land_them_once_and_in_order() {
    let database = database_on(BusKind::Kafka).await;
    let owner = database.owner().await;
    let landings = (0..4).map(|_| {
        let log = message_log(&database);
        async move {
            for first in (0..100).step_by(10) {
                let batch: Vec<Arrival> = (first..first + 10).map(arrival).collect();
                land_all(&log, &batch).await;
            }
        }
    });
    let tasks: Vec<_> = landings.map(tokio::spawn).collect();
    for task in tasks {
        task.await.expect("it lands");
    }
    assert_eq!(landed(&owner).await, 100);
    let reader = open_queue(&database).await;
    assert_eq!(handle_all(&reader, &owner).await, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn messages_that_cannot_be_parsed_or_stored_become_dead_letters_once_and_the_others_land() {
    let database = database_on(BusKind::Redis).await;
    let (owner, log) = (database.owner().await, message_log(&database));
    let nul = String::from_utf8(arrival(7).body.to_vec()).unwrap().replace("{\"n\":7}", "{\"n\":\"\\u0000\"}");
    // Only the database notices this one, and its error does not name the message.
    let caused = String::from_utf8(arrival(8).body.to_vec())
        .unwrap()
        .replace("\"payload\"", "\"causationId\":\"\\u0000\",\"payload\"");
    let unreadable: [&[u8]; 4] = [b"\xff\x00 no JSON", b"", nul.as_bytes(), caused.as_bytes()];
    let mut batch: Vec<Arrival> = unreadable.into_iter().map(with_body).collect();
    batch.insert(0, arrival(1));
    batch.push(arrival(2));
    assert_eq!(land_all(&log, &batch).await, LandedBatch { received: 6, malformed: 4 });
    land_all(&log, &batch).await;
    assert_eq!(landed(&owner).await, 2);
    let letters = "SELECT count(*) FROM onceward.dead_letters WHERE reason = 'malformed' AND queue = 'q.things'";
    assert_eq!(count(&owner, letters).await, 4);
    let refused = "SELECT count(*) FROM onceward.dead_letters WHERE last_error = 'the database cannot store it'";
    assert_eq!(count(&owner, refused).await, 1);
    let kept = "SELECT count(*) FROM onceward.dead_letters WHERE message->>'bodyHex' = 'ff00206e6f204a534f4e'";
    assert_eq!(count(&owner, kept).await, 1, "the bytes are kept unchanged");
}

/// Cancels the message with this number, and returns the queue and what became of it.
async fn cancel(owner: &Client, number: i32) -> (String, String) {
    let cancel = "SELECT c.queue, c.outcome
                  FROM onceward.message_log m, onceward.cancel(m.id, NULL, '{}', 'olga', 'a mistake') c
                  WHERE m.copy = 0 AND (m.payload->>'n')::int = $1";
    let row = owner.query_one(cancel, &[&number]).await.expect("it is in one queue");
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn a_message_is_cancelled_in_the_outbox_on_the_bus_and_after_landing() {
    let database = database_on(BusKind::RabbitMq).await;
    let (owner, log) = (database.owner().await, message_log(&database));
    for number in 1..=4 {
        publish(&owner, number).await;
    }
    assert_eq!(cancel(&owner, 1).await, ("@outbox".into(), "cancelled".into()));
    let mut relayed = Vec::new();
    relay_all(&database, |parcel| {
        relayed.push(number(&parcel));
        Settlement::Done
    })
    .await;
    relayed.sort_unstable();
    assert_eq!(relayed, [2, 3, 4]);

    assert_eq!(cancel(&owner, 2).await, (QUEUE.into(), "arrival".into()));
    let mut arrivals = Vec::new();
    for number in 2..=4 {
        let id = "SELECT id FROM onceward.message_log WHERE (payload->>'n')::bigint = $1";
        arrivals.push(arrival_of(owner.query_one(id, &[&number]).await.expect("it was published").get(0), number));
    }
    land_all(&log, &arrivals).await;
    land_all(&log, &arrivals).await;
    assert_eq!(cancel(&owner, 3).await, (QUEUE.into(), "cancelled".into()));

    let reader = open_queue(&database).await;
    assert_eq!(handle_all(&reader, &owner).await, [4]);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.dead_letters WHERE reason = 'cancelled'").await, 3);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.cancelled").await, 0);
    assert_eq!(cancel(&owner, 2).await.1, "dead");
}
