//! Messages are carried completely.

use super::{BrokerHarness, declaring::simple_topology, fixture::BrokerFixture, queue_reader::text};
use onceward_broker::{Arrival, Parcel, wire};

/// Sends parcels with one key and returns the messages received, in the same order.
async fn round_trip(
    harness: &dyn BrokerHarness,
    parcels: impl FnOnce(&BrokerFixture<'_>) -> Vec<Parcel>,
) -> Vec<(Parcel, Arrival)> {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    let sent = parcels(&fixture);
    fixture.send(sent.clone()).await;
    let mut reader = fixture.reader("work").await;
    let received = reader.take(sent.len()).await;
    reader.accept().await;
    sent.into_iter().zip(received).collect()
}

fn check_headers(sent: &Parcel, received: &Arrival) {
    for (name, value) in sent.headers.iter() {
        assert_eq!(received.header(name), Some(value), "header {name}");
        assert_eq!(
            received.headers.iter().filter(|(known, _)| known == name).count(),
            1,
            "header {name} arrived twice"
        );
    }
}

pub async fn bodies_arrive_as_they_were_sent(harness: &dyn BrokerHarness) {
    let large: Vec<u8> = (0..512 << 10).map(|n| (n % 253) as u8).collect();
    let bodies = [
        vec![],
        vec![b'x'],
        vec![0],
        (0..=255).collect(),
        b"\r\n".to_vec(),
        "{\"name\": \"Gr\u{fc}\u{df}e \u{1f980}\"}".into(),
        vec![0xff, 0xfe, 0xc3],
        large,
        vec![],
    ];
    let round_trip = round_trip(harness, |fixture| {
        let fits = |body: &Vec<u8>| body.len() <= fixture.broker.capabilities().max_body_bytes;
        let bodies = bodies.into_iter().filter(fits);
        bodies.map(|body| fixture.parcel("events", "a", "key", body)).collect()
    });
    for (sent, received) in round_trip.await {
        assert!(sent.body == received.body, "{} bytes arrived as {} others", sent.body.len(), received.body.len());
        check_headers(&sent, &received);
    }
}

pub async fn headers_arrive_as_they_were_sent(harness: &dyn BrokerHarness) {
    let values = [
        ("x-empty", String::new()),
        ("x-unicode", "größe 数量 🦀 \u{202e}\u{0301}".to_owned()),
        ("x-control", "a\tb\r\nc\u{1}".to_owned()),
        ("x-quotes", "\"';--{}[]\\%00".to_owned()),
        ("x-spaces", "  around  ".to_owned()),
        ("x-number", "1234567890123456789012".to_owned()),
        ("x-bool", "true".to_owned()),
        ("x-long", "ü".repeat(4 << 10)),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        ("tracestate", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7".to_owned()),
    ];
    let round_trip = round_trip(harness, |fixture| {
        let mut first = fixture.parcel("events", "a.b", "key", "{}");
        first.headers.extend(values);
        first.priority = 7;
        first.headers.push(wire::PRIORITY, "7");
        let mut second = fixture.parcel("events", "a.b", "key", "{}");
        second.headers.extend((0..40).map(|n| (format!("x-many-{n}"), n.to_string())));
        vec![first, second]
    });
    for (sent, received) in round_trip.await {
        check_headers(&sent, &received);
        assert_eq!(received.header(wire::TOPIC), Some(sent.topic.to_string().as_str()));
    }
}

pub async fn any_ordering_key_is_preserved(harness: &dyn BrokerHarness) {
    let keys = ["schlüssel-数-🦀", " ", "a b/c:d?e=f&g", "\"quoted\"", &"k".repeat(255), &"ü".repeat(127), "\u{1}"];
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    let parcels = (0..3).flat_map(|n| keys.map(|key| fixture.parcel("events", "a", key, format!("{n} {key}"))));
    fixture.send(parcels.collect()).await;
    let received = fixture.reader("work").await.take(3 * keys.len()).await;
    for key in keys {
        let of_key = received.iter().filter(|arrival| arrival.header(wire::ORDERING_KEY) == Some(key));
        let bodies: Vec<String> = of_key.map(|arrival| text(&arrival.body)).collect();
        assert_eq!(bodies, [0, 1, 2].map(|n| format!("{n} {key}")));
    }
}
