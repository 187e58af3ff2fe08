//! Where the facts come from that endpoints are told.

use onceward::{Exchange, Queue, Topology};

/// What this service tells itself: `tenant.<id>.webhook.endpoint_disabled`.
pub(crate) const EVENTS: &str = "webhooks.events";
/// Ticks for its own work.
pub(crate) const TICKS: &str = "webhooks.ticks";
const DEAD: &str = "webhooks.dlq";
pub(crate) const FANOUT: &str = "webhooks.fanout";
pub(crate) const SWEEP: &str = "webhooks.sweep";

/// Facts that endpoints may subscribe to: what is published to an exchange with a key that passes a pattern. The exchange is
/// declared by the service that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The exchange's name.
    pub exchange: &'static str,
    /// Which of its messages.
    pub pattern: &'static str,
}

impl Source {
    /// What is published to `exchange` with a key that passes `pattern`.
    pub const fn new(exchange: &'static str, pattern: &'static str) -> Self {
        Self { exchange, pattern }
    }
}

pub(crate) fn topology(sources: &[Source]) -> Topology {
    let own = Topology::new()
        .exchange(Exchange::topic(EVENTS))
        .exchange(Exchange::direct(TICKS))
        .exchange(Exchange::fanout(DEAD))
        .queue(Queue::work(FANOUT).dead_letter(DEAD))
        .queue(Queue::work(SWEEP).dead_letter(DEAD))
        .queue(Queue::dead_letter_store("webhooks.dlq.v1"))
        .bind(DEAD, "", "webhooks.dlq.v1")
        .bind(TICKS, "sweep", SWEEP)
        .bind(EVENTS, "#", FANOUT);
    sources.iter().fold(own, |topology, source| topology.bind(source.exchange, source.pattern, FANOUT))
}
