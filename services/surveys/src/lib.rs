//! Surveys: respondents never wait for a bus, and quotas never overfill.
//!
//! [`definition`] contains the questions and their routing as pure rules, [`quota`] the places in buckets. `authoring`
//! is the authors' side, [`runtime`] the respondents' side, and [`events`] what both publish on the exchanges of
//! [`topology`]; `dash` is the live view, `answers` reads, exports and erases answers. [`token`] contains the
//! respondents' tokens, [`limits`] their rate limits, [`cache`] caches values that never change.
//!
//! Lock order: session rows by id, then buckets by id, once per transaction. Respondents are not users: their actions
//! are recorded in their sessions and events; the audit trail contains what authors do.

mod answers;
mod authoring;
pub mod cache;
mod compile;
mod dash;
pub mod definition;
pub mod error;
pub mod events;
pub mod limits;
pub mod quota;
pub mod runtime;
pub mod settings;
mod shared_redis;
pub mod token;
pub mod topology;

pub use error::SurveyError;
pub use settings::{SECTION, Settings};

use onceward::prelude::*;
use std::sync::Arc;

/// Returns the service with everything it owns.
pub fn service(settings: Settings) -> Service {
    let settings = Arc::new(settings);
    let context = Arc::new(runtime::SurveyContext::new(settings.clone()));
    let live_view = dash::LiveView::new(&settings);
    let service = Service::new("surveys")
        .migrations(onceward_audit::MIGRATIONS)
        .migrations(MIGRATIONS)
        .requires(onceward_audit::REQUIRED)
        .requires(REQUIRED)
        .schemas(answers::SCHEMAS)
        .schemas(authoring::SCHEMAS)
        .topology(topology::topology());
    let service = events::declare(service);
    let service = runtime::declare(service, &settings);
    let service = dash::declare(service);
    service.routes(move || {
        let routes = authoring::routes().merge(answers::routes()).merge(runtime::routes()).problems(error::PROBLEMS);
        routes.with_state(context.clone()).merge(dash::routes().with_state(live_view.clone()))
    })
}

const MIGRATIONS: Migrations = Migrations {
    schema: "surveys",
    steps: &[
        Migration { name: "0001_surveys", sql: include_str!("../migrations/0001_surveys.sql") },
        Migration { name: "0002_dash", sql: include_str!("../migrations/0002_dash.sql") },
        Migration { name: "0003_steps", sql: include_str!("../migrations/0003_steps.sql") },
    ],
};

/// The columns without which no respondent may be admitted.
const REQUIRED: &[RequiredTable] = &[
    RequiredTable {
        table: "surveys.survey",
        columns: &["tenant_id", "survey_id", "status", "published_version", "quota_revision"],
    },
    RequiredTable { table: "surveys.definition", columns: &["tenant_id", "survey_id", "version", "definition"] },
    RequiredTable { table: "surveys.collector", columns: &["tenant_id", "collector_id", "status", "cap", "let_in_n"] },
    RequiredTable { table: "surveys.invite", columns: &["tenant_id", "invite_id", "session_id", "consumed_at"] },
    RequiredTable {
        table: "surveys.session",
        columns: &["tenant_id", "session_id", "status", "held", "filled", "start_digest", "due_at"],
    },
    RequiredTable { table: "surveys.answer", columns: &["tenant_id", "session_id", "page_id", "attempt", "outcome"] },
    RequiredTable {
        table: "surveys.quota_bucket",
        columns: &["tenant_id", "bucket_id", "target_n", "max_overfill", "reserved_n", "filled_n", "limit_n"],
    },
];
