//! Exchanges, queues and bindings. Lending declares them too, identically; the names are fixed for compatibility with
//! existing consumers.

use onceward::{Exchange, Queue, Topology};

/// The exchange for commands; routing keys are `tenant.<id>.document.process`.
pub(crate) const COMMANDS_EXCHANGE: &str = "ls.commands";
/// The exchange for progress; routing keys are `tenant.<id>.status.document`.
pub(crate) const EVENTS_EXCHANGE: &str = "ls.events";
const DEAD_LETTER_EXCHANGE: &str = "ls.dlq";
const DEAD_LETTER_QUEUE: &str = "ls.dlq.v1";
/// The queue of requests to read the next pages of a document.
pub(crate) const PROCESS_QUEUE: &str = "document.process.v1";
/// The queue of progress, which lending reads.
const STATUS_QUEUE: &str = "status.update.v1";

/// Returns everything this service publishes to and consumes from.
pub fn topology() -> Topology {
    Topology::new()
        .exchange(Exchange::topic(COMMANDS_EXCHANGE))
        .exchange(Exchange::topic(EVENTS_EXCHANGE))
        .exchange(Exchange::fanout(DEAD_LETTER_EXCHANGE))
        .queue(Queue::work(PROCESS_QUEUE).dead_letter(DEAD_LETTER_EXCHANGE))
        .queue(Queue::work(STATUS_QUEUE).dead_letter(DEAD_LETTER_EXCHANGE))
        .queue(Queue::dead_letter_store(DEAD_LETTER_QUEUE))
        .bind(COMMANDS_EXCHANGE, "tenant.*.document.process", PROCESS_QUEUE)
        .bind(EVENTS_EXCHANGE, "tenant.*.status.#", STATUS_QUEUE)
        .bind(DEAD_LETTER_EXCHANGE, "", DEAD_LETTER_QUEUE)
}
