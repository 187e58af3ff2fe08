//! Conversion between parcels and AMQP messages.

use bytes::Bytes;
use jiff::Timestamp;
use lapin::{
    BasicProperties,
    message::Delivery,
    types::{AMQPValue, FieldTable, LongString, ShortString},
};
use onceward_broker::{Arrival, Parcel, wire};
use onceward_envelope::headers;

/// How often the broker delivered the message before. Quorum queues count; others only report whether they did.
const DELIVERY_COUNT: &str = "x-delivery-count";
const PERSISTENT: u8 = 2;
/// The protocol stores the length of names and keys in one byte.
const NAME_BYTES_MAX: usize = 255;
/// An upper bound for the rest of the headers' frame: properties, lengths, frame end.
const HEADER_FRAME_OVERHEAD_BYTES: usize = 2 * 1024;
/// The lengths and type of one header.
const HEADER_OVERHEAD_BYTES: usize = 6;

/// Returns why the protocol cannot carry this message, if it cannot. Sending it would close the connection.
pub(crate) fn limit_violation(parcel: &Parcel, frame_max_bytes: usize) -> Option<String> {
    let names = [parcel.topic.exchange.as_str(), &parcel.topic.routing_key];
    if let Some(name) =
        names.into_iter().chain(parcel.headers.iter().map(|(name, _)| name)).find(|name| name.len() > NAME_BYTES_MAX)
    {
        return Some(format!("a name has {} bytes and RabbitMQ allows at most {NAME_BYTES_MAX}", name.len()));
    }
    let bytes: usize =
        parcel.headers.iter().map(|(name, value)| name.len() + value.len() + HEADER_OVERHEAD_BYTES).sum();
    // Unlike a body, headers must fit in one frame.
    let most = frame_max_bytes.saturating_sub(HEADER_FRAME_OVERHEAD_BYTES);
    (bytes > most).then(|| {
        format!(
            "the headers have {bytes} bytes and this RabbitMQ allows {most} (frame_max): send large content in the body"
        )
    })
}

/// Returns everything except the body. The parcel must not have a [`limit_violation`].
pub(crate) fn properties(parcel: &Parcel) -> BasicProperties {
    let header = |wanted: &str| parcel.headers.get(wanted);
    let short = |wanted| header(wanted).and_then(|value| ShortString::try_new(value).ok());
    let published_at = header(wire::PUBLISHED_AT).and_then(|text| text.parse::<Timestamp>().ok());
    let mut table = FieldTable::default();
    for (name, value) in parcel.headers.iter() {
        table.insert(name.into(), AMQPValue::LongString(LongString::from(value)));
    }
    let mut properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_delivery_mode(PERSISTENT)
        .with_message_id(parcel.id.to_string().into())
        .with_headers(table);
    if let Some(correlation) = short(headers::CORRELATION_ID) {
        properties = properties.with_correlation_id(correlation);
    }
    if let Some(schema) = short(headers::SCHEMA) {
        properties = properties.with_type(schema);
    }
    if let Some(at) = published_at.and_then(|at| u64::try_from(at.as_second()).ok()) {
        properties = properties.with_timestamp(at);
    }
    properties
}

/// Converts a delivery, published by us or by any other program.
pub(crate) fn arrival(delivery: Delivery) -> Arrival {
    let Delivery { exchange, routing_key, redelivered, properties, data, .. } = delivery;
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in properties.headers().iter().flat_map(FieldTable::inner) {
        add(&mut headers, &name.as_str().to_lowercase(), || text(value));
    }
    add(&mut headers, wire::TOPIC, || format!("{exchange}:{routing_key}"));
    for (name, value) in
        [(headers::MESSAGE_ID, properties.message_id()), (headers::CORRELATION_ID, properties.correlation_id())]
    {
        if let Some(value) = value {
            add(&mut headers, name, || value.to_string());
        }
    }
    let counted = headers.iter().find(|(name, _)| name == DELIVERY_COUNT).and_then(|(_, count)| count.parse().ok());
    Arrival { redeliveries: counted.unwrap_or(u32::from(redelivered)), headers, body: Bytes::from(data) }
}

fn add(headers: &mut Vec<(String, String)>, name: &str, value: impl FnOnce() -> String) {
    if headers.iter().all(|(existing, _)| existing != name) {
        headers.push((name.to_owned(), value()));
    }
}

fn text(value: &AMQPValue) -> String {
    match value {
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::ShortShortInt(value) => value.to_string(),
        AMQPValue::ShortShortUInt(value) => value.to_string(),
        AMQPValue::ShortInt(value) => value.to_string(),
        AMQPValue::ShortUInt(value) => value.to_string(),
        AMQPValue::LongInt(value) => value.to_string(),
        AMQPValue::LongUInt(value) => value.to_string(),
        AMQPValue::LongLongInt(value) => value.to_string(),
        AMQPValue::Float(value) => value.to_string(),
        AMQPValue::Double(value) => value.to_string(),
        AMQPValue::DecimalValue(decimal) => format!("{}e-{}", decimal.value, decimal.scale),
        AMQPValue::ShortString(value) => value.to_string(),
        AMQPValue::LongString(value) => String::from_utf8_lossy(value.as_bytes()).into_owned(),
        AMQPValue::ByteArray(value) => String::from_utf8_lossy(value.as_slice()).into_owned(),
        AMQPValue::Timestamp(seconds) => {
            let at = i64::try_from(*seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
            at.map_or_else(|| seconds.to_string(), |at| at.to_string())
        }
        AMQPValue::FieldArray(values) => {
            let values: Vec<String> = values.as_slice().iter().map(text).collect();
            format!("[{}]", values.join(", "))
        }
        AMQPValue::FieldTable(table) => {
            let fields: Vec<String> =
                table.inner().iter().map(|(name, value)| format!("{name}: {}", text(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        AMQPValue::Void => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_topology::Topic;
    use uuid::Uuid;

    fn parcel(headers: &[(&str, &str)]) -> Parcel {
        Parcel {
            id: Uuid::nil(),
            topic: Topic::new("e", "k").into(),
            ordering_key: None,
            priority: 0,
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), value)).collect(),
            body: Bytes::new(),
            expected: true,
        }
    }

    #[test]
    fn messages_beyond_protocol_limits_are_found_before_sending() {
        assert_eq!(limit_violation(&parcel(&[("x-topic", "e:k")]), 131_072), None);
        assert!(limit_violation(&parcel(&[(&"n".repeat(256), "")]), 131_072).unwrap().contains("256 bytes"));
        assert!(limit_violation(&parcel(&[("x", &"v".repeat(7_000))]), 8_192).unwrap().contains("frame_max"));
        let mut long = parcel(&[]);
        long.topic = Topic::new("e", "k".repeat(256)).into();
        assert!(limit_violation(&long, 131_072).unwrap().contains("at most"));
    }

    #[test]
    fn standard_properties_repeat_the_headers() {
        let long = "c".repeat(300);
        let ours = properties(&parcel(&[
            ("x-schema", "payment.posted.v1"),
            ("x-correlation-id", &long),
            ("x-published-at", "2026-11-16T00:00:01.5Z"),
        ]));
        assert_eq!(ours.kind().as_ref().unwrap().as_str(), "payment.posted.v1");
        assert_eq!(ours.correlation_id(), &None, "too long for a short string; the header carries it");
        assert_eq!(ours.timestamp(), &Some(1_794_787_201));
        assert_eq!(ours.delivery_mode(), &Some(2));
        assert_eq!(ours.message_id().as_ref().unwrap().as_str(), Uuid::nil().to_string());
    }

    #[test]
    fn headers_of_other_programs_become_text() {
        let mut delivery = Delivery::mock(1, "orders".into(), "placed".into(), true, b"{}".to_vec());
        let mut inner = FieldTable::default();
        inner.insert("queue".into(), AMQPValue::LongString("q".into()));
        inner.insert("count".into(), AMQPValue::LongLongInt(2));
        let mut table = FieldTable::default();
        table.insert("X-Flag".into(), AMQPValue::Boolean(true));
        table.insert("x-death".into(), AMQPValue::FieldArray(vec![AMQPValue::FieldTable(inner)].into()));
        table.insert("x-at".into(), AMQPValue::Timestamp(0));
        table.insert("x-bytes".into(), AMQPValue::LongString(vec![b'a', 0xff].into()));
        delivery.properties = BasicProperties::default().with_headers(table).with_message_id("theirs".into());
        let arrival = arrival(delivery);
        let header = |name| arrival.header(name).unwrap();
        assert_eq!(header("x-flag"), "true");
        assert_eq!(header("x-death"), "[{count: 2, queue: q}]");
        assert_eq!(header("x-at"), "1970-01-01T00:00:00Z");
        assert_eq!(header("x-bytes"), "a\u{fffd}");
        assert_eq!(header("x-topic"), "orders:placed");
        assert_eq!(header("x-message-id"), "theirs");
        assert_eq!((arrival.redeliveries, &arrival.body[..]), (1, &b"{}"[..]));
    }
}
