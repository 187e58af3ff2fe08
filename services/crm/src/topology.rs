//! Exchanges, queues and bindings. The names of mail requests are fixed for compatibility with existing publishers.

use onceward::{Exchange, Queue, Topology};

/// The exchange of everything that crm publishes and of the mails that are requested from it.
pub const NOTIFICATIONS: &str = "notifications.topic";
const DEAD_LETTERS: &str = "notifications.dlx";
/// The queue of requested mails.
pub const EMAIL_QUEUE: &str = "q.crm.email.v1";
const EMAIL_DEAD_LETTER_QUEUE: &str = "q.crm.email.v1.dlq";
/// The routing key of requested mails.
pub(crate) const EMAIL_REQUESTED_KEY: &str = "crm.email.requested.v1";
/// The queue of what lending publishes about loans.
pub(crate) const LOAN_FACTS_QUEUE: &str = "q.crm.loan-facts.v1";
/// The queue of the sweep's ticks.
pub(crate) const SWEEP_QUEUE: &str = "q.crm.sweep.v1";
pub(crate) const SWEEP_KEY: &str = "crm.sweep.v1";
const DELIVERY_LIMIT: u16 = 20;

/// Exchanges of lending, which lending declares too, identically: services share contracts, not code.
const LOAN_EVENTS: &str = "ls.events";
const PAYMENT_EVENTS: &str = "payments.events";

/// Returns everything that crm publishes to and consumes from.
pub fn topology() -> Topology {
    Topology::new()
        .exchange(Exchange::topic(NOTIFICATIONS))
        .exchange(Exchange::fanout(DEAD_LETTERS))
        .exchange(Exchange::topic(LOAN_EVENTS))
        .exchange(Exchange::topic(PAYMENT_EVENTS))
        .queue(Queue::work(EMAIL_QUEUE).dead_letter(DEAD_LETTERS).delivery_limit(DELIVERY_LIMIT))
        .queue(Queue::dead_letter_store(EMAIL_DEAD_LETTER_QUEUE))
        .queue(Queue::work(LOAN_FACTS_QUEUE).dead_letter(DEAD_LETTERS))
        .queue(Queue::work(SWEEP_QUEUE).dead_letter(DEAD_LETTERS))
        .bind(NOTIFICATIONS, EMAIL_REQUESTED_KEY, EMAIL_QUEUE)
        .bind(NOTIFICATIONS, SWEEP_KEY, SWEEP_QUEUE)
        .bind(LOAN_EVENTS, "tenant.*.loan.created", LOAN_FACTS_QUEUE)
        .bind(LOAN_EVENTS, "tenant.*.loan.updated", LOAN_FACTS_QUEUE)
        .bind(PAYMENT_EVENTS, "payment.posted.v1", LOAN_FACTS_QUEUE)
        .bind(PAYMENT_EVENTS, "payment.allocated.v1", LOAN_FACTS_QUEUE)
        .bind(PAYMENT_EVENTS, "payment.returned.v1", LOAN_FACTS_QUEUE)
        .bind(DEAD_LETTERS, "", EMAIL_DEAD_LETTER_QUEUE)
}
