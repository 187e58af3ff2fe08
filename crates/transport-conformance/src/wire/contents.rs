//! What is carried is carried whole.

use super::{Lab, declaring::simple, reader::text, stand::Stand};
use onceward_transport::{Arrival, Parcel, wire};

/// Sends parcels of one key and gives what came, in the same order.
async fn carried(lab: &dyn Lab, parcels: impl FnOnce(&Stand<'_>) -> Vec<Parcel>) -> Vec<(Parcel, Arrival)> {
    let stand = Stand::declared(lab, simple()).await;
    let sent = parcels(&stand);
    stand.send(sent.clone()).await;
    let mut reader = stand.reader("work").await;
    let came = reader.take(sent.len()).await;
    reader.accept().await;
    sent.into_iter().zip(came).collect()
}

fn check_headers(sent: &Parcel, came: &Arrival) {
    for (name, value) in sent.headers.iter() {
        assert_eq!(came.header(name), Some(value), "header {name}");
        assert_eq!(came.headers.iter().filter(|(known, _)| known == name).count(), 1, "header {name} came twice");
    }
}

/// See the name.
pub async fn bodies_arrive_as_they_were_sent(lab: &dyn Lab) {
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
    let carried = carried(lab, |stand| {
        let fits = |body: &Vec<u8>| body.len() <= stand.broker.capabilities().max_body_bytes;
        let bodies = bodies.into_iter().filter(fits);
        bodies.map(|body| stand.parcel("events", "a", "key", body)).collect()
    });
    for (sent, came) in carried.await {
        assert!(sent.body == came.body, "{} bytes came as {} others", sent.body.len(), came.body.len());
        check_headers(&sent, &came);
    }
}

/// See the name.
pub async fn headers_arrive_as_they_were_sent(lab: &dyn Lab) {
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
    ];
    let carried = carried(lab, |stand| {
        let mut first = stand.parcel("events", "a.b", "key", "{}");
        first.headers.extend(values);
        first.priority = 7;
        first.headers.push(wire::PRIORITY, "7");
        let mut second = stand.parcel("events", "a.b", "key", "{}");
        second.headers.extend((0..40).map(|n| (format!("x-many-{n}"), n.to_string())));
        vec![first, second]
    });
    for (sent, came) in carried.await {
        check_headers(&sent, &came);
        assert_eq!(came.header(wire::TOPIC), Some(sent.topic.to_string().as_str()));
    }
}

/// See the name.
pub async fn any_ordering_key_is_carried(lab: &dyn Lab) {
    let keys = ["schlüssel-数-🦀", " ", "a b/c:d?e=f&g", "\"quoted\"", &"k".repeat(255), &"ü".repeat(127), "\u{1}"];
    let stand = Stand::declared(lab, simple()).await;
    let parcels = (0..3).flat_map(|n| keys.map(|key| stand.parcel("events", "a", key, format!("{n} {key}"))));
    stand.send(parcels.collect()).await;
    let came = stand.reader("work").await.take(3 * keys.len()).await;
    for key in keys {
        let of_key = came.iter().filter(|arrival| arrival.header(wire::ORDERING_KEY) == Some(key));
        let bodies: Vec<String> = of_key.map(|arrival| text(&arrival.body)).collect();
        assert_eq!(bodies, [0, 1, 2].map(|n| format!("{n} {key}")));
    }
}
