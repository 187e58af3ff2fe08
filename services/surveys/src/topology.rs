//! The service's exchanges, queues and routing keys, each named once. The names are fixed for compatibility with
//! existing consumers. On Kafka each exchange is a topic of the same name, with the ordering key as record key.

use onceward::{Exchange, Queue, TenantId, Topology};

/// `tenant.<id>.session.started`, `.completed`, `.terminated`, `.erased`.
pub const SESSIONS: &str = "runtime.sessions";
/// `tenant.<id>.answer.upserted`.
pub const ANSWERS: &str = "runtime.answers";
/// `tenant.<id>.quota.reserved`, `.released`, `.finalized`, `.bucket_closed`.
pub const QUOTA: &str = "runtime.quota";
/// `tenant.<id>.collector.opened`, `.paused`, `.closed`, `tenant.<id>.invite.consumed`.
pub const COLLECTORS: &str = "collectors.events";
/// The service's own messages: `tenant.<id>.` followed by [`EXPIRE_KEY`], [`REMOVE_COUNTERS_KEY`] or [`PROBE_KEY`].
pub const SCHEDULES: &str = "surveys.schedules";
const DEAD_LETTERS: &str = "surveys.dlq";

/// Scheduled ticks, read by `runtime::consumers`.
pub(crate) const EXPIRE_QUEUE: &str = "surveys.expire.v1";
/// Events that the live view counts, read by `dash::consumer`.
pub(crate) const DASH_QUEUE: &str = "surveys.dash.v1";
const DEAD_LETTER_QUEUE: &str = "surveys.dlq.v1";

pub(crate) const EXPIRE_KEY: &str = "sessions.expire";
pub(crate) const REMOVE_COUNTERS_KEY: &str = "counters.forget";
pub(crate) const PROBE_KEY: &str = "counters.probe";

/// Declares every exchange and queue that surveys use.
pub fn topology() -> Topology {
    Topology::new()
        .exchange(Exchange::topic(SESSIONS))
        .exchange(Exchange::topic(ANSWERS))
        .exchange(Exchange::topic(QUOTA))
        .exchange(Exchange::topic(COLLECTORS))
        .exchange(Exchange::topic(SCHEDULES))
        .exchange(Exchange::fanout(DEAD_LETTERS))
        .queue(Queue::dead_letter_store(DEAD_LETTER_QUEUE))
        .bind(DEAD_LETTERS, "", DEAD_LETTER_QUEUE)
        .queue(Queue::work(EXPIRE_QUEUE).dead_letter(DEAD_LETTERS))
        .bind(SCHEDULES, every_tenant(EXPIRE_KEY), EXPIRE_QUEUE)
        .bind(SCHEDULES, every_tenant(REMOVE_COUNTERS_KEY), EXPIRE_QUEUE)
        // One lane per tenant: rows that are counted together are updated by one worker, without contention.
        .queue(Queue::work(DASH_QUEUE).shards(1).dead_letter(DEAD_LETTERS))
        .bind(SESSIONS, every_tenant("session.*"), DASH_QUEUE)
        .bind(ANSWERS, every_tenant("answer.*"), DASH_QUEUE)
        .bind(QUOTA, every_tenant("quota.*"), DASH_QUEUE)
        .bind(SCHEDULES, every_tenant(PROBE_KEY), DASH_QUEUE)
}

/// Returns the routing key of a tenant's message.
pub(crate) fn tenant_key(tenant: &TenantId, key: &str) -> String {
    format!("tenant.{tenant}.{key}")
}

/// Returns the topic of a schedule that ticks for each tenant; the platform replaces `{tenant}`.
pub(crate) fn schedule_topic(key: &str) -> String {
    format!("{SCHEDULES}:tenant.{{tenant}}.{key}")
}

fn every_tenant(key: &str) -> String {
    format!("tenant.*.{key}")
}
