//! The exchanges, and the list of the queues. A queue is declared beside the message that it receives: those of
//! payments in `payments/consumers`, one per file with its consumer, and the others in `events.rs` of their area.
//!
//! All names are fixed for compatibility with existing consumers.

use crate::payments::consumers::{
    on_allocate, on_payment_event, on_post, on_process, on_raw, on_received, on_validated,
};
use crate::{escrow::events as escrow, etl::events as etl, loans::events as loans, progress};
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

/// A queue that lending reads, and what it receives: the messages published to an exchange with a routing key.
#[derive(Clone, Copy)]
pub(crate) struct WorkQueue {
    pub name: &'static str,
    pub exchange: &'static str,
    /// The routing key. It follows the tenant in commands and ticks; see [`tenant_key`].
    pub key: &'static str,
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

/// Loans, escrow and reporting: each receives the messages of every tenant.
const SERVICING: &[WorkQueue] = &[
    loans::CREATE_QUEUE,
    loans::UPDATE_QUEUE,
    on_process::QUEUE,
    on_allocate::QUEUE,
    escrow::DISBURSE_QUEUE,
    etl::SCHEDULE_QUEUE,
    etl::JOB_QUEUE,
    loans::ACCRUE_QUEUE,
    progress::QUEUE,
];

fn servicing(topology: Topology) -> Topology {
    let topology = topology
        .exchange(Exchange::topic(exchanges::COMMANDS))
        .exchange(Exchange::topic(exchanges::EVENTS))
        .exchange(Exchange::topic(exchanges::SCHEDULES))
        .exchange(Exchange::fanout(DEAD_LETTERS))
        .queue(Queue::dead_letter_store(DEAD_LETTER_QUEUE))
        .bind(DEAD_LETTERS, "", DEAD_LETTER_QUEUE);
    SERVICING.iter().fold(topology, |topology, WorkQueue { name, exchange, key }| {
        topology.queue(Queue::work(*name).dead_letter(DEAD_LETTERS)).bind(*exchange, tenant_key("*", key), *name)
    })
}

/// The payment pipeline, in the order in which a payment passes through it.
const PIPELINE: &[WorkQueue] =
    &[on_raw::QUEUE, on_received::QUEUE, on_validated::QUEUE, on_post::QUEUE, on_payment_event::QUEUE];

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
        .bind(exchanges::PAYMENT_EVENTS, "payment.*.*", on_payment_event::QUEUE.name);
    PIPELINE.iter().fold(topology, |topology, WorkQueue { name, exchange, key }| {
        let work = Queue::work(*name).dead_letter_as(PAYMENT_DEAD_LETTERS, "#").delivery_limit(PAYMENT_DELIVERY_LIMIT);
        topology.queue(work).bind(*exchange, *key, *name)
    })
}
