//! The live view: what happens in a survey, while it happens.
//!
//! `consumer` counts events, each once, in the transaction that settles its message: `facts` says what of each, `store` and
//! `migrations/0002_dash.sql` how. `snapshot` is what is shown at a moment; `hub` reads it once for all who look on. `routes`
//! gives it as JSON, as server-sent events and as a `page`, which a `link` opens without a tenant's token.
//!
//! Invariant: counts survive duplicates, any order of arrival and any crash. Buckets are not counted from events: their fill is
//! read from where places are given out.

mod consumer;
mod facts;
mod hub;
mod link;
mod page;
mod routes;
mod slo;
mod snapshot;
mod store;

pub(crate) use consumer::topology;
pub(crate) use routes::routes;

use crate::Settings;
use hub::Hub;
use link::Links;
use onceward::prelude::*;
use std::{sync::Arc, time::Duration};

/// What the routes of the live view share.
pub(crate) struct Dash {
    hub: Arc<Hub>,
    links: Links,
    link_minutes: u32,
}

impl Dash {
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        let every = Duration::from_millis(settings.live_every_ms.max(100));
        let hub = Hub::new(settings.live_listeners_max, every);
        Arc::new(Self { hub, links: Links::new(&settings.token_secret), link_minutes: settings.live_link_minutes })
    }
}

/// The service with what counts, and with what is promised about quotas.
pub(crate) fn counting(service: Service) -> Service {
    service
        .schemas(SCHEMAS)
        .requires(REQUIRED)
        .consumer(consumer::consumer())
        .figures(slo::describe)
        .sampler(slo::sample)
        .slo(slo::overfill())
}

const SCHEMAS: &[&str] =
    &[include_str!("../../schemas/survey.live.v1.json"), include_str!("../../schemas/live.link.v1.json")];

const REQUIRED: &[RequiredTable] = &[
    RequiredTable { table: "surveys.dash_tally", columns: &["tenant_id", "survey_id", "minute", "kind", "n"] },
    RequiredTable { table: "surveys.dash_session", columns: &["tenant_id", "session_id", "page_index", "state"] },
    RequiredTable { table: "surveys.dash_standing", columns: &["tenant_id", "survey_id", "page_id", "state", "n"] },
    RequiredTable { table: "surveys.dash_progress", columns: &["tenant_id", "survey_id", "events", "newest_at"] },
];
