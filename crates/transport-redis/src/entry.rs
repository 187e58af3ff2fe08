//! A message as an entry of a stream.
//!
//! `body` is the body. Every other field is a header, by its own name; only a header called `body`, or one that begins
//! with a colon, has a colon put before it. A program of others needs to know no more than `body`.

use bytes::Bytes;
use onceward_transport::{
    Arrival, Parcel,
    wire::{ORDERING_KEY, PRIORITY, TOPIC},
};
use redis::Cmd;
use std::borrow::Cow;

const BODY: &str = "body";

/// Adds a parcel to a stream that must be there already.
pub(crate) fn add(stream: &str, parcel: &Parcel) -> Cmd {
    let mut command = redis::cmd("XADD");
    command.arg(stream).arg("NOMKSTREAM").arg("*").arg(BODY).arg(&parcel.body[..]);
    for (name, value) in parcel.headers.iter() {
        command.arg(&*field(name)).arg(value);
    }
    let mut unless_given = |name: &str, value: &str| {
        if parcel.headers.get(name).is_none() {
            command.arg(name).arg(value);
        }
    };
    unless_given(TOPIC, &parcel.topic.to_string());
    if let Some(key) = &parcel.ordering_key {
        unless_given(ORDERING_KEY, key);
    }
    if parcel.priority > 0 {
        unless_given(PRIORITY, &parcel.priority.to_string());
    }
    command
}

/// Reads an entry's names and values. One that others added without a topic came to the queue by no exchange.
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
    fn headers_come_back_as_given_whatever_their_names() {
        let given = [("body", "not the body"), (":colon", "a\0b\n"), ("::", ""), ("", "nameless"), ("x-é", "→")];
        let back = arrival(fields(&add("s", &parcel(&given, b""))), 2, "q");
        assert_eq!(&back.body[..], b"");
        assert_eq!(back.redeliveries, 2);
        for (name, value) in given {
            assert_eq!(back.header(name), Some(value), "{name:?}");
        }
    }

    #[test]
    fn topic_key_and_priority_are_among_the_headers_once() {
        let back = arrival(fields(&add("s", &parcel(&[(ORDERING_KEY, "given")], b"{}"))), 0, "q");
        assert_eq!(back.header(TOPIC), Some("orders:placed"));
        assert_eq!(back.header(PRIORITY), Some("3"));
        assert_eq!(back.headers.iter().filter(|(name, _)| name == ORDERING_KEY).count(), 1);
    }

    #[test]
    fn an_entry_of_others_is_read_as_far_as_it_goes() {
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        let back = arrival(words(&[b"data", b"x", b"bytes", b"\xff"]), 0, "q");
        assert_eq!((back.header("data"), back.header("bytes")), (Some("x"), Some("\u{fffd}")));
        assert_eq!((back.header(TOPIC), back.body.len()), (Some(":q"), 0));
    }
}
