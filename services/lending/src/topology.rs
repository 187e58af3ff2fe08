//! Exchanges, queues, routing keys and bindings. Events, consumers and metrics use the same constants, so that a
//! search for one of them leads from an event to its binding and to its consumer.
//!
//! Their names are fixed for compatibility with existing consumers.

use onceward::{Exchange, Queue, Topology};
use std::fmt::Display;

/// The exchanges to which lending publishes.
pub mod exchanges {
    /// Commands, as `tenant.<id>.loan.create`.
    pub const COMMANDS: &str = "ls.commands";
    /// Events, as `tenant.<id>.loan.created`, and progress, as `tenant.<id>.status.…`.
    pub const EVENTS: &str = "ls.events";
    /// Ticks, as `tenant.<id>.etl.schedule`.
    pub const SCHEDULES: &str = "ls.schedules";
    /// Payloads of gateways.
    pub const PAYMENT_INBOUND: &str = "payments.inbound";
    /// Received payments.
    pub const PAYMENT_VALIDATION: &str = "payments.validation";
    /// Validated payments, and operators' requests.
    pub const PAYMENT_SAGA: &str = "payments.saga";
    /// Events about payments, for any consumer.
    pub const PAYMENT_EVENTS: &str = "payments.events";
}

/// The queues that lending reads.
pub(crate) mod queues {
    pub(crate) const LOAN_CREATE: &str = "loan.create.v1";
    pub(crate) const LOAN_UPDATE: &str = "loan.update.v1";
    pub(crate) const LOAN_ACCRUE: &str = "loan.accrue.v1";
    pub(crate) const PAYMENT_PROCESS: &str = "payment.process.v1";
    pub(crate) const PAYMENT_ALLOCATE: &str = "payment.allocate.v1";
    pub(crate) const ESCROW_DISBURSE: &str = "escrow.disburse.v1";
    pub(crate) const ETL_SCHEDULE: &str = "etl.schedule.v1";
    pub(crate) const ETL_JOB: &str = "etl.job.v1";
    pub(crate) const STATUS_UPDATE: &str = "status.update.v1";
    pub(crate) const PAYMENT_INTAKE: &str = "q.payments.intake";
    pub(crate) const PAYMENT_RECEIVED: &str = "q.payments.received";
    pub(crate) const PAYMENT_VALIDATED: &str = "q.payments.validated";
    pub(crate) const PAYMENT_POST: &str = "q.payments.post";
    pub(crate) const PAYMENT_AUDIT: &str = "q.payments.events.audit";
}

/// The routing keys that both an event and a binding use. Those of commands and ticks follow the tenant; see
/// [`tenant_key`].
pub(crate) mod keys {
    pub(crate) const LOAN_CREATE: &str = "loan.create";
    pub(crate) const LOAN_UPDATE: &str = "loan.update";
    pub(crate) const LOAN_ACCRUE: &str = "loan.accrue";
    pub(crate) const PAYMENT_PROCESS: &str = "payment.process";
    pub(crate) const PAYMENT_ALLOCATE: &str = "payment.allocate";
    pub(crate) const ESCROW_DISBURSE: &str = "escrow.disburse";
    pub(crate) const ETL_SCHEDULE: &str = "etl.schedule";
    pub(crate) const ETL_JOB: &str = "etl.job";
    pub(crate) const PAYMENT_RAW: &str = "received.raw";
    pub(crate) const PAYMENT_RECEIVED: &str = "received.v1";
    pub(crate) const PAYMENT_VALIDATED: &str = "validated.v1";
    pub(crate) const PAYMENT_POST: &str = "post.v1";
}

/// Returns the routing key of a tenant's message: `tenant.<id>.<key>`.
pub(crate) fn tenant_key(tenant: impl Display, key: &str) -> String {
    format!("tenant.{tenant}.{key}")
}

const DEAD_LETTERS: &str = "ls.dlq";
const DEAD_LETTER_QUEUE: &str = "ls.dlq.v1";
const PAYMENT_DEAD_LETTERS: &str = "payments.dlq";
const PAYMENT_DEAD_LETTER_QUEUE: &str = "q.payments.dlq";
const PAYMENT_DELIVERY_LIMIT: u16 = 6;
const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Returns the topology of everything that lending publishes and consumes.
pub fn topology() -> Topology {
    payments(servicing(Topology::new()))
}

/// Loans, escrow and reporting: (queue, exchange, key of every tenant).
const SERVICING: &[(&str, &str, &str)] = &[
    (queues::LOAN_CREATE, exchanges::COMMANDS, keys::LOAN_CREATE),
    (queues::LOAN_UPDATE, exchanges::COMMANDS, keys::LOAN_UPDATE),
    (queues::PAYMENT_PROCESS, exchanges::COMMANDS, keys::PAYMENT_PROCESS),
    (queues::PAYMENT_ALLOCATE, exchanges::COMMANDS, keys::PAYMENT_ALLOCATE),
    (queues::ESCROW_DISBURSE, exchanges::COMMANDS, keys::ESCROW_DISBURSE),
    (queues::ETL_SCHEDULE, exchanges::SCHEDULES, keys::ETL_SCHEDULE),
    (queues::ETL_JOB, exchanges::COMMANDS, keys::ETL_JOB),
    (queues::LOAN_ACCRUE, exchanges::SCHEDULES, keys::LOAN_ACCRUE),
    (queues::STATUS_UPDATE, exchanges::EVENTS, "status.#"),
];

fn servicing(topology: Topology) -> Topology {
    let topology = topology
        .exchange(Exchange::topic(exchanges::COMMANDS))
        .exchange(Exchange::topic(exchanges::EVENTS))
        .exchange(Exchange::topic(exchanges::SCHEDULES))
        .exchange(Exchange::fanout(DEAD_LETTERS))
        .queue(Queue::dead_letter_store(DEAD_LETTER_QUEUE))
        .bind(DEAD_LETTERS, "", DEAD_LETTER_QUEUE);
    SERVICING.iter().fold(topology, |topology, (queue, exchange, key)| {
        topology.queue(Queue::work(*queue).dead_letter(DEAD_LETTERS)).bind(*exchange, tenant_key("*", key), *queue)
    })
}

/// The payment pipeline: (queue, exchange, pattern).
const PIPELINE: &[(&str, &str, &str)] = &[
    (queues::PAYMENT_INTAKE, exchanges::PAYMENT_INBOUND, keys::PAYMENT_RAW),
    (queues::PAYMENT_RECEIVED, exchanges::PAYMENT_VALIDATION, keys::PAYMENT_RECEIVED),
    (queues::PAYMENT_VALIDATED, exchanges::PAYMENT_SAGA, keys::PAYMENT_VALIDATED),
    (queues::PAYMENT_POST, exchanges::PAYMENT_SAGA, keys::PAYMENT_POST),
    (queues::PAYMENT_AUDIT, exchanges::PAYMENT_EVENTS, "payment.*"),
];

fn payments(topology: Topology) -> Topology {
    let topology = topology
        .exchange(Exchange::direct(exchanges::PAYMENT_INBOUND))
        .exchange(Exchange::topic(exchanges::PAYMENT_VALIDATION))
        .exchange(Exchange::topic(exchanges::PAYMENT_SAGA))
        .exchange(Exchange::topic(exchanges::PAYMENT_EVENTS))
        // Direct, and bound with the literal key `#`, which dead letters carry.
        .exchange(Exchange::direct(PAYMENT_DEAD_LETTERS))
        .queue(Queue::dead_letter_store(PAYMENT_DEAD_LETTER_QUEUE).ttl_ms(WEEK_MS))
        .bind(PAYMENT_DEAD_LETTERS, "#", PAYMENT_DEAD_LETTER_QUEUE)
        // The events have a version as their third word, which `payment.*` does not match.
        .bind(exchanges::PAYMENT_EVENTS, "payment.*.*", queues::PAYMENT_AUDIT);
    PIPELINE.iter().fold(topology, |topology, (queue, exchange, pattern)| {
        let work = Queue::work(*queue).dead_letter_as(PAYMENT_DEAD_LETTERS, "#").delivery_limit(PAYMENT_DELIVERY_LIMIT);
        topology.queue(work).bind(*exchange, *pattern, *queue)
    })
}
