//! The exchanges and queues of this service, and the sources of the events that endpoints receive.

use onceward::{Exchange, Queue, Topology};

/// The exchange of the service's own events: `tenant.<id>.webhook.endpoint_disabled`.
pub const EVENTS_EXCHANGE: &str = "webhooks.events";
/// The exchange of the ticks that start maintenance.
pub(crate) const TICKS_EXCHANGE: &str = "webhooks.ticks";
const DEAD_LETTER_EXCHANGE: &str = "webhooks.dlq";
const DEAD_LETTER_QUEUE: &str = "webhooks.dlq.v1";
/// The queue of the events to fan out to endpoints.
pub(crate) const FANOUT_QUEUE: &str = "webhooks.fanout";
/// The queue of maintenance ticks.
pub(crate) const SWEEP_QUEUE: &str = "webhooks.sweep";
/// The routing key of maintenance ticks.
pub(crate) const SWEEP_ROUTING_KEY: &str = "sweep";

/// Events that endpoints may subscribe to: messages published to an exchange with a routing key that matches a pattern.
/// The exchange is declared by the service that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSource {
    /// The exchange's name.
    pub exchange: &'static str,
    /// The pattern that selects its messages.
    pub pattern: &'static str,
    /// The event types that the source publishes. If empty, they are unknown, and endpoints may subscribe to any.
    pub types: &'static [&'static str],
}

impl EventSource {
    /// Selects the messages published to `exchange` with a routing key that matches `pattern`.
    pub const fn new(exchange: &'static str, pattern: &'static str) -> Self {
        Self { exchange, pattern, types: &[] }
    }

    /// Declares the event types that the source publishes. Endpoints' filters are checked against them.
    pub const fn types(self, types: &'static [&'static str]) -> Self {
        Self { types, ..self }
    }
}

pub(crate) fn topology(sources: &[EventSource]) -> Topology {
    let own = Topology::new()
        .exchange(Exchange::topic(EVENTS_EXCHANGE))
        .exchange(Exchange::direct(TICKS_EXCHANGE))
        .exchange(Exchange::fanout(DEAD_LETTER_EXCHANGE))
        .queue(Queue::work(FANOUT_QUEUE).dead_letter(DEAD_LETTER_EXCHANGE))
        .queue(Queue::work(SWEEP_QUEUE).dead_letter(DEAD_LETTER_EXCHANGE))
        .queue(Queue::dead_letter_store(DEAD_LETTER_QUEUE))
        .bind(DEAD_LETTER_EXCHANGE, "", DEAD_LETTER_QUEUE)
        .bind(TICKS_EXCHANGE, SWEEP_ROUTING_KEY, SWEEP_QUEUE)
        .bind(EVENTS_EXCHANGE, "#", FANOUT_QUEUE);
    sources.iter().fold(own, |topology, source| topology.bind(source.exchange, source.pattern, FANOUT_QUEUE))
}
