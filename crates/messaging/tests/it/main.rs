//! Messaging on a real PostgreSQL: what is promised, and what happens when things break.

mod batches;
mod collect;
mod delays;
mod delivery_limit;
mod enqueue;
mod fairness;
mod isolation;
mod late;
mod leased;
mod order;
mod outbox;
mod precedence;
mod requeue;
mod requeue_leased;
mod requeue_order;
mod requeue_outbox;
mod retention;
mod retries;
mod routing;
mod running;
mod schedules;
mod support;
mod topology;
mod transactional;
mod triage_support;
mod versions;
