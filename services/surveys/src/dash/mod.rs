//! The live view: a survey's activity as it happens.
//!
//! `consumer` counts each event once, in the transaction that settles its message (`store` and
//! `migrations/0002_dash.sql`); `probe` measures how far counting lags behind, `retention` removes old counts. `snapshot`
//! is the state at one moment, with a `funnel` of pages; `live_feed` reads it once for all viewers. `routes` serves it
//! as JSON, as server-sent events and as a `page` with `charts`, which a `live_link` opens without a tenant's token.
//!
//! Invariant: counts survive duplicates, any order of arrival and any crash. Bucket counts do not come from events;
//! they are read from the table in which places are reserved.

mod charts;
mod consumer;
mod funnel;
mod live_feed;
mod live_link;
mod page;
mod probe;
mod retention;
mod routes;
mod slo;
mod snapshot;
mod store;

pub(crate) use retention::{RemoveOldCounters, RemoveOldCountersHandler};
pub(crate) use routes::{LiveView, routes};

use onceward::{RequiredTable, Service};

/// Adds the counting consumer, the messages of this module and the quota objective to the service.
pub(crate) fn declare(service: Service) -> Service {
    service
        .schemas(SCHEMAS)
        .requires(REQUIRED)
        .publishes::<probe::LagProbe>()
        .publishes::<RemoveOldCounters>()
        .consumer(consumer::consumer())
        .metrics(slo::describe_metrics)
        .sampler(slo::sample)
        .slo(slo::overfill_slo())
}

const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/survey.live.v1.json"),
    include_str!("../../schemas/live.link.v1.json"),
    include_str!("../../schemas/counters.probe.v1.json"),
    include_str!("../../schemas/counters.forget.v1.json"),
];

const REQUIRED: &[RequiredTable] = &[
    RequiredTable { table: "surveys.dash_tally", columns: &["tenant_id", "survey_id", "minute", "kind", "n"] },
    RequiredTable {
        table: "surveys.dash_session",
        columns: &["tenant_id", "session_id", "page_index", "state", "seen_at"],
    },
    RequiredTable { table: "surveys.dash_standing", columns: &["tenant_id", "survey_id", "page_id", "state", "n"] },
    RequiredTable { table: "surveys.dash_progress", columns: &["tenant_id", "survey_id", "events", "newest_at"] },
    RequiredTable { table: "surveys.dash_probe", columns: &["tenant_id", "survey_id", "sent_at", "seen_at"] },
];
