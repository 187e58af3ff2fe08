//! The topics of the specification, as exchanges. On Kafka each is a topic of its name, and the ordering key its record key.

use crate::dash;
use onceward::{Exchange, Queue, Topology};

/// `tenant.<id>.session.started`, `.completed`, `.terminated`.
pub const SESSIONS: &str = "runtime.sessions";
/// `tenant.<id>.answer.upserted`.
pub const ANSWERS: &str = "runtime.answers";
/// `tenant.<id>.quota.reserved`, `.released`, `.finalized`, `.bucket_closed`.
pub const QUOTA: &str = "runtime.quota";
/// `tenant.<id>.collector.opened`, `.paused`, `.closed`, `tenant.<id>.invite.consumed`.
pub const COLLECTORS: &str = "collectors.events";
/// Ticks, as `tenant.<id>.sessions.expire`.
pub const SCHEDULES: &str = "surveys.schedules";
const DEAD: &str = "surveys.dlq";

/// Everything surveys send and read.
pub fn topology() -> Topology {
    let topology = Topology::new()
        .exchange(Exchange::topic(SESSIONS))
        .exchange(Exchange::topic(ANSWERS))
        .exchange(Exchange::topic(QUOTA))
        .exchange(Exchange::topic(COLLECTORS))
        .exchange(Exchange::topic(SCHEDULES))
        .exchange(Exchange::fanout(DEAD))
        .queue(Queue::dead_letter_store("surveys.dlq.v1"))
        .bind(DEAD, "", "surveys.dlq.v1")
        .queue(Queue::work("surveys.expire.v1").dead_letter(DEAD))
        .bind(SCHEDULES, "tenant.*.sessions.expire", "surveys.expire.v1");
    dash::topology(topology, DEAD)
}
