//! A message as an entry of a stream.
//!
//! `body` is the body. Every other field is a header under its own name; a header called `body`, or one that starts with a
//! colon, is prefixed with a colon. Other programs only need to know `body`.

use bytes::Bytes;
use onceward_broker::{
    Arrival, Parcel,
    wire::{ORDERING_KEY, PRIORITY, TOPIC},
};
use redis::Cmd;
use std::borrow::Cow;

const BODY: &str = "body";

/// Returns the command that adds a parcel to an existing stream.
pub(crate) fn add(stream: &str, parcel: &Parcel) -> Cmd {
    let mut command = redis::cmd("XADD");
    command.arg(stream).arg("NOMKSTREAM").arg("*").arg(BODY).arg(&parcel.body[..]);
    for (name, value) in parcel.headers.iter() {
        command.arg(&*field(name)).arg(value);
    }
    let mut add_unless_present = |name: &str, value: &str| {
        if parcel.headers.get(name).is_none() {
            command.arg(name).arg(value);
        }
    };
    add_unless_present(TOPIC, &parcel.topic.to_string());
    if let Some(key) = &parcel.ordering_key {
        add_unless_present(ORDERING_KEY, key);
    }
    if parcel.priority > 0 {
        add_unless_present(PRIORITY, &parcel.priority.to_string());
    }
    command
}

/// Converts an entry's fields. An entry of another program without a topic gets one with an empty exchange.
pub(crate) fn arrival(fields: Vec<Vec<u8>>, deliveries: u32, queue: &str) -> Arrival {
    let mut headers = Vec::with_capacity(fields.len() / 2 + 1);
    let mut body = None;
    let mut fields = fields.into_iter();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        if name == BODY.as_bytes() && body.is_none() {
            body = Some(Bytes::from(value));
        } else {
            headers.push((header(text(name)), text(value)));
        }
    }
    if !headers.iter().any(|(name, _)| name == TOPIC) {
        headers.push((TOPIC.to_owned(), format!(":{queue}")));
    }
    Arrival { headers, body: body.unwrap_or_default(), redeliveries: deliveries }
}

fn field(header: &str) -> Cow<'_, str> {
    if header == BODY || header.starts_with(':') { format!(":{header}").into() } else { header.into() }
}

fn header(field: String) -> String {
    field.strip_prefix(':').map(str::to_owned).unwrap_or(field)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_topology::Topic;
    use redis::Arg;
    use uuid::Uuid;

    fn fields(command: &Cmd) -> Vec<Vec<u8>> {
        let words = command.args_iter().map(|arg| match arg {
            Arg::Simple(bytes) => bytes.to_vec(),
            other => panic!("unexpected argument {other:?}"),
        });
        words.skip(4).collect()
    }

    fn parcel(headers: &[(&str, &str)], body: &'static [u8]) -> Parcel {
        Parcel {
            id: Uuid::nil(),
            topic: Topic::new("orders", "placed").into(),
            ordering_key: Some("clé".into()),
            priority: 3,
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), value)).collect(),
            body: Bytes::from_static(body),
            expected: true,
        }
    }

    #[test]
    fn headers_of_any_name_round_trip() {
        let given = [("body", "not the body"), (":colon", "a\0b\n"), ("::", ""), ("", "nameless"), ("x-é", "→")];
        let back = arrival(fields(&add("s", &parcel(&given, b""))), 2, "q");
        assert_eq!(&back.body[..], b"");
        assert_eq!(back.redeliveries, 2);
        for (name, value) in given {
            assert_eq!(back.header(name), Some(value), "{name:?}");
        }
    }

    #[test]
    fn topic_key_and_priority_headers_appear_once() {
        let back = arrival(fields(&add("s", &parcel(&[(ORDERING_KEY, "given")], b"{}"))), 0, "q");
        assert_eq!(back.header(TOPIC), Some("orders:placed"));
        assert_eq!(back.header(PRIORITY), Some("3"));
        assert_eq!(back.headers.iter().filter(|(name, _)| name == ORDERING_KEY).count(), 1);
    }

    #[test]
    fn an_entry_of_another_program_is_read_leniently() {
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        let back = arrival(words(&[b"data", b"x", b"bytes", b"\xff"]), 0, "q");
        assert_eq!((back.header("data"), back.header("bytes")), (Some("x"), Some("\u{fffd}")));
        assert_eq!((back.header(TOPIC), back.body.len()), (Some(":q"), 0));
    }
}
