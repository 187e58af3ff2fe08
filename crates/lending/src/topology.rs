//! Exchanges, queues and bindings, by the names that the specification gives them.

use onceward::{Exchange, Queue, Topology};

/// Commands, as `tenant.<id>.loan.create`.
pub const COMMANDS: &str = "ls.commands";
/// Facts, as `tenant.<id>.loan.created`, and progress, as `tenant.<id>.status.…`.
pub const EVENTS: &str = "ls.events";
/// Ticks, as `tenant.<id>.etl.schedule`.
pub const SCHEDULES: &str = "ls.schedules";
const DEAD: &str = "ls.dlq";

const PAYMENTS_DEAD: &str = "payments.dlq";
const DELIVERIES: u16 = 6;
const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Everything lending sends and reads.
pub fn topology() -> Topology {
    payments(servicing(Topology::new()))
}

/// Loans, escrow, reporting, documents: (queue, exchange, pattern).
const SERVICING: &[(&str, &str, &str)] = &[
    ("loan.create.v1", COMMANDS, "tenant.*.loan.create"),
    ("loan.update.v1", COMMANDS, "tenant.*.loan.update"),
    ("payment.process.v1", COMMANDS, "tenant.*.payment.process"),
    ("payment.allocate.v1", COMMANDS, "tenant.*.payment.allocate"),
    ("escrow.disburse.v1", COMMANDS, "tenant.*.escrow.disburse"),
    ("etl.schedule.v1", SCHEDULES, "tenant.*.etl.schedule"),
    ("etl.job.v1", COMMANDS, "tenant.*.etl.job"),
    ("loan.accrue.v1", SCHEDULES, "tenant.*.loan.accrue"),
    ("status.update.v1", EVENTS, "tenant.*.status.#"),
];

fn servicing(topology: Topology) -> Topology {
    let topology = topology
        .exchange(Exchange::topic(COMMANDS))
        .exchange(Exchange::topic(EVENTS))
        .exchange(Exchange::topic(SCHEDULES))
        .exchange(Exchange::fanout(DEAD))
        .queue(Queue::dead_letter_store("ls.dlq.v1"))
        .bind(DEAD, "", "ls.dlq.v1");
    SERVICING.iter().fold(topology, |topology, (queue, exchange, pattern)| {
        topology.queue(Queue::work(*queue).dead_letter(DEAD)).bind(*exchange, *pattern, *queue)
    })
}

/// The payment pipeline: (queue, exchange, pattern).
const PIPELINE: &[(&str, &str, &str)] = &[
    ("q.payments.intake", "payments.inbound", "received.raw"),
    ("q.payments.received", "payments.validation", "received.v1"),
    ("q.payments.validated", "payments.saga", "validated.v1"),
    ("q.payments.post", "payments.saga", "post.v1"),
    ("q.payments.events.audit", "payments.events", "payment.*"),
];

fn payments(topology: Topology) -> Topology {
    let topology = topology
        .exchange(Exchange::direct("payments.inbound"))
        .exchange(Exchange::topic("payments.validation"))
        .exchange(Exchange::topic("payments.saga"))
        .exchange(Exchange::topic("payments.events"))
        // Direct, and bound with the literal key `#`, which is what dead letters carry.
        .exchange(Exchange::direct(PAYMENTS_DEAD))
        .queue(Queue::dead_letter_store("q.payments.dlq").ttl_ms(WEEK_MS))
        .bind(PAYMENTS_DEAD, "#", "q.payments.dlq")
        // The facts have a version as their third word, which `payment.*` does not cover.
        .bind("payments.events", "payment.*.*", "q.payments.events.audit");
    PIPELINE.iter().fold(topology, |topology, (queue, exchange, pattern)| {
        let queue = Queue::work(*queue).dead_letter_as(PAYMENTS_DEAD, "#").delivery_limit(DELIVERIES);
        let name = queue.name.clone();
        topology.queue(queue).bind(*exchange, *pattern, name)
    })
}
