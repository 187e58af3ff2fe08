//! Topologies through the public API: merged, checked, routed and printed.

mod check;
mod merge;
mod route;

use onceward_topology::{Exchange, Queue, Topology};

/// The topology of the payment pipeline: five exchanges, four queues, and a direct exchange bound with a literal `#`.
pub fn payments() -> Topology {
    let work = |name: &str| Queue::work(name).dead_letter_as("payments.dlq", "#").delivery_limit(6);
    Topology::new()
        .exchange(Exchange::topic("payments.inbound"))
        .exchange(Exchange::topic("payments.validation"))
        .exchange(Exchange::topic("payments.saga"))
        .exchange(Exchange::topic("payments.events"))
        .exchange(Exchange::direct("payments.dlq"))
        .queue(work("q.payments.received"))
        .queue(work("q.payments.validated"))
        .queue(work("q.payments.events"))
        .queue(Queue::dead_letter_store("q.payments.dlq").ttl_ms(604_800_000))
        .bind("payments.validation", "received.v1", "q.payments.received")
        .bind("payments.validation", "validated.v1", "q.payments.validated")
        .bind("payments.events", "payment.#", "q.payments.events")
        .bind("payments.dlq", "#", "q.payments.dlq")
}
