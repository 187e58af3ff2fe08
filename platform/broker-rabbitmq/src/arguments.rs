//! The properties and arguments of a queue or an exchange, and the broker's error text when one differs.

use lapin::types::{AMQPValue, FieldTable};
use onceward_topology::{Exchange, Queue};
use std::{collections::BTreeMap, fmt};

/// What can be declared on the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntityKind {
    Exchange,
    Queue,
}

impl fmt::Display for EntityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exchange => "exchange",
            Self::Queue => "queue",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentValue {
    Flag(bool),
    Number(i64),
    Text(String),
}

impl fmt::Display for ArgumentValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Properties and arguments by the names that the broker uses in its error texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arguments(BTreeMap<String, ArgumentValue>);

/// Properties that the broker's error texts call arguments, but that are not sent as such.
const PROPERTIES: [&str; 4] = ["type", "durable", "auto_delete", "internal"];

impl Arguments {
    pub(crate) fn of_exchange(exchange: &Exchange) -> Self {
        Self::of([
            ("type", ArgumentValue::Text(exchange.kind.as_str().to_owned())),
            ("durable", ArgumentValue::Flag(true)),
        ])
    }

    /// Quorum queues have no priorities (they apply in the database), so there is no argument for them.
    pub(crate) fn of_queue(queue: &Queue) -> Self {
        let letter = queue.dead_letter.as_ref();
        let optional = [
            ("x-delivery-limit", queue.delivery_limit.map(|limit| ArgumentValue::Number(limit.into()))),
            ("x-dead-letter-exchange", letter.map(|letter| ArgumentValue::Text(letter.exchange.clone()))),
            (
                "x-dead-letter-routing-key",
                letter.and_then(|letter| letter.routing_key.clone()).map(ArgumentValue::Text),
            ),
            (
                "x-message-ttl",
                queue.message_ttl_ms.map(|ttl| ArgumentValue::Number(ttl.try_into().unwrap_or(i64::MAX))),
            ),
        ];
        let mut arguments = Self::of([
            ("durable", ArgumentValue::Flag(true)),
            ("x-queue-type", ArgumentValue::Text("quorum".to_owned())),
        ]);
        let given = optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        arguments.0.extend(given);
        arguments
    }

    fn of<const N: usize>(arguments: [(&str, ArgumentValue); N]) -> Self {
        Self(arguments.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&ArgumentValue> {
        self.0.get(name)
    }

    pub(crate) fn has_flag(&self, name: &str) -> bool {
        self.get(name) == Some(&ArgumentValue::Flag(true))
    }

    pub(crate) fn set(&mut self, name: String, value: Option<ArgumentValue>) {
        match value {
            Some(value) => self.0.insert(name, value),
            None => self.0.remove(&name),
        };
    }

    /// Returns the arguments without the properties.
    pub(crate) fn table(&self) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, value) in self.0.iter().filter(|(name, _)| !PROPERTIES.contains(&name.as_str())) {
            let value = match value {
                ArgumentValue::Flag(flag) => AMQPValue::Boolean(*flag),
                ArgumentValue::Number(number) => AMQPValue::LongLongInt(*number),
                ArgumentValue::Text(text) => AMQPValue::LongString(text.as_str().into()),
            };
            table.insert(name.as_str().into(), value);
        }
        table
    }

    /// Parses which argument differs, and its value on the broker. Returns `None` if the text is not understood or truncated.
    ///
    /// `inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received '1' but current is '2'`, or
    /// `… received none but current is the value '6' of type 'signedint'`, or
    /// `invalid arg 'x-delivery-limit' for queue 'q' in vhost '/' of queue type rabbit_classic_queue`.
    pub(crate) fn differing(&self, text: &str) -> Option<(String, Option<ArgumentValue>)> {
        let (problem, rest) = text.split_once(" arg '")?;
        let (name, rest) = rest.split_once("' for ")?;
        if problem.ends_with("invalid") {
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
                    Some(ArgumentValue::Number(_)) => ArgumentValue::Number(value.parse().ok()?),
                    Some(ArgumentValue::Text(_)) => ArgumentValue::Text(value.to_owned()),
                    Some(ArgumentValue::Flag(_)) | None => ArgumentValue::Flag(value.parse().ok()?),
                })
            }
        };
        Some((name.to_owned(), current))
    }
}

impl fmt::Display for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&all.join(", "))
    }
}

fn read(value: &str, kind: &str) -> Option<ArgumentValue> {
    match kind {
        "longstr" => Some(ArgumentValue::Text(value.to_owned())),
        "bool" => value.parse().ok().map(ArgumentValue::Flag),
        _ => value.parse().ok().map(ArgumentValue::Number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> Arguments {
        let queue = Queue::work("q").delivery_limit(6).dead_letter_as("dlx", "#").ttl_ms(604_800_000).max_priority(9);
        Arguments::of_queue(&queue)
    }

    fn differing(text: &str) -> Option<(String, Option<ArgumentValue>)> {
        arguments().differing(&format!("PRECONDITION_FAILED - {text}"))
    }

    #[test]
    fn a_queue_has_exactly_the_arguments_of_the_topology() {
        assert_eq!(
            arguments().to_string(),
            "durable=true, x-dead-letter-exchange=dlx, x-dead-letter-routing-key=#, x-delivery-limit=6, \
             x-message-ttl=604800000, x-queue-type=quorum"
        );
        assert_eq!(Arguments::of_queue(&Queue::work("q")).to_string(), "durable=true, x-queue-type=quorum");
        assert_eq!(arguments().table().inner().len(), 5);
    }

    #[test]
    fn differing_argument_values_are_parsed() {
        let of = |value| Some(("x-message-ttl".to_owned(), value));
        let text = "inequivalent arg 'x-message-ttl' for queue 'a''b' in vhost '/': ";
        let read = |rest: &str| differing(&format!("{text}{rest}"));
        assert_eq!(read("received '1' but current is '2'"), of(Some(ArgumentValue::Number(2))));
        assert_eq!(read("received the value '1' of type 'long' but current is none"), of(None));
        let typed = "received none but current is the value 'it's' of type 'longstr'";
        assert_eq!(read(typed), of(Some(ArgumentValue::Text("it's".to_owned()))));
        assert_eq!(read("received '1' but current i"), None, "truncated");
    }

    #[test]
    fn differing_properties_are_parsed() {
        let durable =
            differing("inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'");
        assert_eq!(durable, Some(("durable".to_owned(), Some(ArgumentValue::Flag(false)))));
        let auto = differing(
            "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        );
        assert_eq!(auto, Some(("auto_delete".to_owned(), Some(ArgumentValue::Flag(true)))));
        let invalid =
            differing("invalid arg 'x-delivery-limit' for queue 'q' in vhost '/' of queue type rabbit_classic_queue");
        assert_eq!(invalid, Some(("x-delivery-limit".to_owned(), None)));
        assert_eq!(differing("something else"), None);
    }
}
