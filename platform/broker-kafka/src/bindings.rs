//! Filters the records of a queue's topics by its bindings, and converts them to messages.

use bytes::Bytes;
use onceward_broker::{Arrival, wire};
use onceward_topology::{ExchangeKind, Topology, pattern};
use rdkafka::{
    Message,
    message::{BorrowedMessage, Headers},
};
use std::collections::BTreeMap;

/// A queue's bindings by exchange.
pub(crate) struct Bindings(BTreeMap<String, (ExchangeKind, Vec<String>)>);

impl Bindings {
    pub(crate) fn of(topology: &Topology, queue: &str) -> Self {
        let mut exchanges: BTreeMap<String, (ExchangeKind, Vec<String>)> = BTreeMap::new();
        for binding in topology.bindings.iter().filter(|binding| binding.queue == queue) {
            if let Some(exchange) = topology.find_exchange(&binding.exchange) {
                let (_, patterns) = exchanges.entry(exchange.name.clone()).or_insert((exchange.kind, Vec::new()));
                patterns.push(binding.pattern.clone());
            }
        }
        Self(exchanges)
    }

    /// Returns the exchanges that the queue is bound to.
    pub(crate) fn exchanges(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Checks whether a binding matches. Every queue reads all records of its topics and skips those that no binding
    /// matches. A record without our topic header comes from another program; its routing key is unknown, so it matches.
    fn accepts(&self, exchange: &str, topic: Option<&str>) -> bool {
        let Some((kind, patterns)) = self.0.get(exchange) else {
            return false;
        };
        match topic.and_then(|topic| topic.split_once(':')) {
            Some((_, routing_key)) => patterns.iter().any(|pattern| pattern::matches(*kind, pattern, routing_key)),
            None => true,
        }
    }

    /// Converts a record to a message; returns `None` if it is not for this queue.
    pub(crate) fn arrival(&self, record: &BorrowedMessage<'_>) -> Option<Arrival> {
        let mut headers: Vec<(String, String)> = record.headers().map_or_else(Vec::new, |headers| {
            let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
            headers.iter().map(|header| (header.key.to_owned(), text(header.value))).collect()
        });
        let has = |headers: &[(String, String)], wanted: &str| headers.iter().any(|(name, _)| name == wanted);
        let topic = headers.iter().find(|(name, _)| name == wire::TOPIC).map(|(_, value)| value.as_str());
        if !self.accepts(record.topic(), topic) {
            return None;
        }
        if !has(&headers, wire::TOPIC) {
            headers.push((wire::TOPIC.to_owned(), format!("{}:", record.topic())));
        }
        if !has(&headers, wire::ORDERING_KEY)
            && let Some(key) = record.key().and_then(|key| std::str::from_utf8(key).ok())
        {
            headers.push((wire::ORDERING_KEY.to_owned(), key.to_owned()));
        }
        let body = Bytes::copy_from_slice(record.payload().unwrap_or_default());
        Some(Arrival { headers, body, redeliveries: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_topology::{Exchange, Queue};

    #[test]
    fn a_record_is_accepted_if_a_binding_to_its_exchange_matches() {
        let topology = Topology::new()
            .exchange(Exchange::topic("events"))
            .exchange(Exchange::direct("commands"))
            .queue(Queue::work("q"))
            .bind("events", "order.*", "q")
            .bind("events", "stock.#", "q")
            .bind("commands", "reserve", "q")
            .bind("commands", "cancel", "other");
        let bindings = Bindings::of(&topology, "q");
        assert_eq!(bindings.exchanges().collect::<Vec<_>>(), ["commands", "events"]);
        let cases = [
            ("events", Some("events:order.placed"), true),
            ("events", Some("events:order.placed.again"), false),
            ("events", Some("events:stock"), true),
            ("commands", Some("commands:reserve"), true),
            ("commands", Some("commands:cancel"), false),
            ("events", Some("commands:reserve"), false),
            // Another installation's prefix affects only the topic's name.
            ("events", Some("elsewhere:order.placed"), true),
            ("events", None, true),
            ("events", Some("not a topic"), true),
            ("unknown", None, false),
        ];
        for (exchange, topic, wanted) in cases {
            assert_eq!(bindings.accepts(exchange, topic), wanted, "{exchange} {topic:?}");
        }
    }
}
