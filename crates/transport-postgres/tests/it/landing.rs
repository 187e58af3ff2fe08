//! Messages that come over an external bus, and the outbox they leave by.

use crate::database::{QUEUE, bus, database_on, handle_all, reader};
use onceward_testkit::TestDb;
use onceward_transport::{Arrival, BusKind, Settlement, Subscription, Transport, wire};
use onceward_transport_postgres::{
    PostgresTransport,
    land::{Landed, land},
    routes::OUTBOX,
};
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

const CONSUMER: &str = "reader";

fn arrival(number: i64) -> Arrival {
    let id = Uuid::from_u128(0x7000_0000_0000_8000_0000_0000_0000_u128 + u128::from(number.unsigned_abs()));
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

async fn land_all(bus: &PostgresTransport, arrivals: &[Arrival]) -> Landed {
    let queue = bus.routes().queue(QUEUE).await.expect("it is declared");
    land(bus, CONSUMER, &queue, arrivals).await.expect("they land")
}

async fn count(owner: &Client, statement: &str) -> i64 {
    owner.query_one(statement, &[]).await.expect("can be asked").get(0)
}

async fn landed(owner: &Client) -> i64 {
    count(owner, "SELECT count(*) FROM onceward.message_log WHERE copy = 1").await
}

#[tokio::test]
async fn what_lands_is_handled_once_and_in_order_however_often_it_comes() {
    let database = database_on(BusKind::RabbitMq).await;
    let (owner, bus) = (database.owner().await, bus(&database));
    let first: Vec<Arrival> = (0..5).map(arrival).collect();
    assert_eq!(land_all(&bus, &first).await, Landed { received: 5, malformed: 0 });
    let again: Vec<Arrival> = (3..8).chain(3..8).map(arrival).collect();
    land_all(&bus, &again).await;
    assert_eq!(landed(&owner).await, 8);
    let intake = reader(&database).await;
    assert_eq!(handle_all(intake.as_ref(), &owner).await, (0..8).collect::<Vec<_>>());
    land_all(&bus, &first).await;
    assert_eq!(handle_all(intake.as_ref(), &owner).await, Vec::<i64>::new());
}

#[tokio::test]
async fn two_receivers_that_land_the_same_at_once_land_it_once_and_in_order() {
    let database = database_on(BusKind::Kafka).await;
    let owner = database.owner().await;
    let landings = (0..4).map(|_| {
        let bus = bus(&database);
        async move {
            for first in (0..100).step_by(10) {
                let batch: Vec<Arrival> = (first..first + 10).map(arrival).collect();
                land_all(&bus, &batch).await;
            }
        }
    });
    let tasks: Vec<_> = landings.map(tokio::spawn).collect();
    for task in tasks {
        task.await.expect("it lands");
    }
    assert_eq!(landed(&owner).await, 100);
    let intake = reader(&database).await;
    assert_eq!(handle_all(intake.as_ref(), &owner).await, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_cannot_be_read_or_held_is_put_away_once_and_its_neighbours_land() {
    let database = database_on(BusKind::Redis).await;
    let (owner, bus) = (database.owner().await, bus(&database));
    let nul = String::from_utf8(arrival(7).body.to_vec()).unwrap().replace("{\"n\":7}", "{\"n\":\"\\u0000\"}");
    let batch = [arrival(1), with_body(b"\xff\x00 no JSON"), with_body(b""), with_body(nul.as_bytes()), arrival(2)];
    assert_eq!(land_all(&bus, &batch).await, Landed { received: 5, malformed: 3 });
    land_all(&bus, &batch).await;
    assert_eq!(landed(&owner).await, 2);
    let letters = "SELECT count(*) FROM onceward.dead_letters WHERE reason = 'malformed' AND queue = 'q.things'";
    assert_eq!(count(&owner, letters).await, 3);
    let kept = "SELECT count(*) FROM onceward.dead_letters WHERE message->>'bodyHex' = 'ff00206e6f204a534f4e'";
    assert_eq!(count(&owner, kept).await, 1, "the bytes are kept as they came");
}

#[tokio::test]
async fn the_outbox_tells_what_is_published_what_waits_and_what_was_refused() {
    let database = database_on(BusKind::RabbitMq).await;
    let owner = database.owner().await;
    for number in 0..3 {
        crate::database::publish(&owner, number).await;
    }
    assert_eq!(outbox(&owner).await, [(0, false), (0, false), (0, false)]);
    let outbox_reader = bus(&database);
    let subscription = Subscription {
        consumer: "relay".into(),
        queue: OUTBOX.into(),
        ordered: true,
        concurrency: 1,
        isolate_killers: false,
    };
    let intake = outbox_reader.open(subscription).await.expect("the outbox is a queue");
    relay_all(intake.as_ref(), &database).await;
    let mut seen = outbox(&owner).await;
    seen.sort_unstable();
    assert_eq!(seen, [(1, false), (1, true), (1, true)], "one was refused and waits, two are published");
    let error =
        "SELECT count(*) FROM onceward.outbox_messages WHERE last_error = 'too large' AND next_retry_at > now()";
    assert_eq!(count(&owner, error).await, 1);
}

/// Attempts and whether it is published, for each row.
async fn outbox(owner: &Client) -> Vec<(i32, bool)> {
    let statement = "SELECT attempt_count, published_at IS NOT NULL FROM onceward.outbox_messages ORDER BY created_at";
    owner.query(statement, &[]).await.expect("can be asked").iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// The bus takes all but message 1.
async fn relay_all(intake: &dyn onceward_transport::Intake, database: &TestDb) {
    let owner = database.owner().await;
    let waiting = "SELECT depth FROM onceward.queue_stats(1000) WHERE queue = '@outbox'";
    while count(&owner, waiting).await > 0 {
        match intake.take(10).await.expect("a turn can be taken") {
            Some(turn) => {
                let after = std::time::Duration::from_secs(3600);
                let refused = || Settlement::Retry { after, error: "too large".into() };
                let settle = |n: &serde_json::Value| if *n == 1 { refused() } else { Settlement::Done };
                let settlements = turn.deliveries().iter().map(|d| settle(&d.envelope.payload["n"])).collect();
                turn.settle(settlements).await.expect("it is settled");
            }
            None => intake.wait(std::time::Duration::from_millis(20)).await,
        }
    }
}
