//! Exchanges, queues and bindings, by the names that the specification gives them. They are lending's too, declared alike.

use onceward::{Exchange, Queue, Topology};

/// Commands, as `tenant.<id>.document.process`.
pub(crate) const COMMANDS: &str = "ls.commands";
/// Progress, as `tenant.<id>.status.document`.
pub(crate) const EVENTS: &str = "ls.events";
const DEAD: &str = "ls.dlq";
/// What asks for a document to be read.
pub(crate) const PROCESS: &str = "document.process.v1";
const STATUS: &str = "status.update.v1";

/// What this service sends and reads.
pub fn topology() -> Topology {
    Topology::new()
        .exchange(Exchange::topic(COMMANDS))
        .exchange(Exchange::topic(EVENTS))
        .exchange(Exchange::fanout(DEAD))
        .queue(Queue::work(PROCESS).dead_letter(DEAD))
        .queue(Queue::work(STATUS).dead_letter(DEAD))
        .queue(Queue::dead_letter_store("ls.dlq.v1"))
        .bind(COMMANDS, "tenant.*.document.process", PROCESS)
        .bind(EVENTS, "tenant.*.status.#", STATUS)
        .bind(DEAD, "", "ls.dlq.v1")
}
