//! What RabbitMQ calls the properties and arguments of a queue or an exchange, and how it says that one differs.

use lapin::types::{AMQPValue, FieldTable};
use onceward_topology::{Exchange, Queue};
use std::{collections::BTreeMap, fmt};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    Exchange,
    Queue,
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exchange => "exchange",
            Self::Queue => "queue",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    Flag(bool),
    Number(i64),
    Text(String),
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Names as the broker uses them when it complains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape(BTreeMap<String, Argument>);

/// Not arguments to the broker, though it speaks of them as if they were.
const PROPERTIES: [&str; 4] = ["type", "durable", "auto_delete", "internal"];

impl Shape {
    pub(crate) fn of_exchange(exchange: &Exchange) -> Self {
        Self::of([("type", Argument::Text(exchange.kind.as_str().to_owned())), ("durable", Argument::Flag(true))])
    }

    /// Quorum queues have no priorities (messages get theirs in the database), so there is no argument for them.
    pub(crate) fn of_queue(queue: &Queue) -> Self {
        let letter = queue.dead_letter.as_ref();
        let optional = [
            ("x-delivery-limit", queue.delivery_limit.map(|limit| Argument::Number(limit.into()))),
            ("x-dead-letter-exchange", letter.map(|letter| Argument::Text(letter.exchange.clone()))),
            ("x-dead-letter-routing-key", letter.and_then(|letter| letter.routing_key.clone()).map(Argument::Text)),
            ("x-message-ttl", queue.message_ttl_ms.map(|ttl| Argument::Number(ttl.try_into().unwrap_or(i64::MAX)))),
        ];
        let mut shape =
            Self::of([("durable", Argument::Flag(true)), ("x-queue-type", Argument::Text("quorum".to_owned()))]);
        let given = optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        shape.0.extend(given);
        shape
    }

    fn of<const N: usize>(arguments: [(&str, Argument); N]) -> Self {
        Self(arguments.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Argument> {
        self.0.get(name)
    }

    pub(crate) fn has_flag(&self, name: &str) -> bool {
        self.get(name) == Some(&Argument::Flag(true))
    }

    pub(crate) fn set(&mut self, name: String, value: Option<Argument>) {
        match value {
            Some(value) => self.0.insert(name, value),
            None => self.0.remove(&name),
        };
    }

    /// The arguments proper.
    pub(crate) fn table(&self) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, value) in self.0.iter().filter(|(name, _)| !PROPERTIES.contains(&name.as_str())) {
            let value = match value {
                Argument::Flag(flag) => AMQPValue::Boolean(*flag),
                Argument::Number(number) => AMQPValue::LongLongInt(*number),
                Argument::Text(text) => AMQPValue::LongString(text.as_str().into()),
            };
            table.insert(name.as_str().into(), value);
        }
        table
    }

    /// The argument that differs, and its value on the broker: `None` if the text cannot be read, or was cut off.
    ///
    /// `inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received '1' but current is '2'`, or
    /// `… received none but current is the value '6' of type 'signedint'`, or
    /// `invalid arg 'x-delivery-limit' for queue 'q' in vhost '/' of queue type rabbit_classic_queue`.
    pub(crate) fn differing(&self, text: &str) -> Option<(String, Option<Argument>)> {
        let (complaint, rest) = text.split_once(" arg '")?;
        let (name, rest) = rest.split_once("' for ")?;
        if complaint.ends_with("invalid") {
            return self.get(name).map(|_| (name.to_owned(), None));
        }
        let (_, current) = rest.rsplit_once(" but current is ")?;
        let current = match current.strip_prefix("the value '") {
            _ if current == "none" => None,
            Some(typed) => {
                let (value, kind) = typed.strip_suffix('\'')?.rsplit_once("' of type '")?;
                Some(read(value, kind)?)
            }
            None => {
                let value = current.strip_prefix('\'')?.strip_suffix('\'')?;
                Some(match self.get(name) {
                    Some(Argument::Number(_)) => Argument::Number(value.parse().ok()?),
                    Some(Argument::Text(_)) => Argument::Text(value.to_owned()),
                    Some(Argument::Flag(_)) | None => Argument::Flag(value.parse().ok()?),
                })
            }
        };
        Some((name.to_owned(), current))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&all.join(", "))
    }
}

fn read(value: &str, kind: &str) -> Option<Argument> {
    match kind {
        "longstr" => Some(Argument::Text(value.to_owned())),
        "bool" => value.parse().ok().map(Argument::Flag),
        _ => value.parse().ok().map(Argument::Number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        let queue = Queue::work("q").delivery_limit(6).dead_letter_as("dlx", "#").ttl_ms(604_800_000).max_priority(9);
        Shape::of_queue(&queue)
    }

    fn differing(text: &str) -> Option<(String, Option<Argument>)> {
        shape().differing(&format!("PRECONDITION_FAILED - {text}"))
    }

    #[test]
    fn a_queue_has_the_arguments_of_the_topology_and_no_others() {
        assert_eq!(
            shape().to_string(),
            "durable=true, x-dead-letter-exchange=dlx, x-dead-letter-routing-key=#, x-delivery-limit=6, \
             x-message-ttl=604800000, x-queue-type=quorum"
        );
        assert_eq!(Shape::of_queue(&Queue::work("q")).to_string(), "durable=true, x-queue-type=quorum");
        assert_eq!(shape().table().inner().len(), 5);
    }

    #[test]
    fn complaints_about_values_are_read() {
        let of = |value| Some(("x-message-ttl".to_owned(), value));
        let text = "inequivalent arg 'x-message-ttl' for queue 'a''b' in vhost '/': ";
        let read = |rest: &str| differing(&format!("{text}{rest}"));
        assert_eq!(read("received '1' but current is '2'"), of(Some(Argument::Number(2))));
        assert_eq!(read("received the value '1' of type 'long' but current is none"), of(None));
        let typed = "received none but current is the value 'it's' of type 'longstr'";
        assert_eq!(read(typed), of(Some(Argument::Text("it's".to_owned()))));
        assert_eq!(read("received '1' but current i"), None, "cut off");
    }

    #[test]
    fn complaints_about_properties_are_read() {
        let durable =
            differing("inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'");
        assert_eq!(durable, Some(("durable".to_owned(), Some(Argument::Flag(false)))));
        let auto = differing(
            "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        );
        assert_eq!(auto, Some(("auto_delete".to_owned(), Some(Argument::Flag(true)))));
        let invalid =
            differing("invalid arg 'x-delivery-limit' for queue 'q' in vhost '/' of queue type rabbit_classic_queue");
        assert_eq!(invalid, Some(("x-delivery-limit".to_owned(), None)));
        assert_eq!(differing("something else"), None);
    }
}
