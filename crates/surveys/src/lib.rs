//! Surveys: respondents who never wait for a bus, and quotas that never overfill.
//!
//! [`definition`] is what is asked and where answers lead: pure rules. [`quota`] is places in buckets. [`authoring`] is what
//! authors do, [`runtime`] what respondents do, and [`events`] what both tell; `dash` shows it while it happens. [`token`] is
//! what a respondent shows, [`limits`] how often they may call, [`cache`] what is kept because it never changes.
//!
//! The order of locks: sessions' rows by their ids, then buckets by theirs, once in a transaction. Respondents are no users: what
//! they did is in their session and its events, and the audit trail has what authors do.

mod authoring;
pub mod cache;
mod dash;
pub mod definition;
pub mod error;
pub mod events;
pub mod limits;
pub mod quota;
pub mod runtime;
pub mod settings;
mod shared;
pub mod token;
pub mod topology;

pub use error::SurveyError;
pub use settings::{SECTION, Settings};

use onceward::prelude::*;
use std::sync::Arc;

/// The service, with all it owns.
pub fn service(settings: Settings) -> Service {
    let settings = Arc::new(settings);
    let desk = Arc::new(runtime::Desk::new(settings.clone()));
    let service = Service::new("surveys")
        .migrations(onceward_audit::MIGRATIONS)
        .migrations(MIGRATIONS)
        .requires(onceward_audit::REQUIRED)
        .requires(REQUIRED)
        .schemas(events::SCHEMAS)
        .schemas(authoring::SCHEMAS)
        .schemas(runtime::SCHEMAS)
        .topology(topology::topology());
    let service = runtime::consumers(service, &settings).figures(runtime::describe);
    let service = dash::counting(service);
    let dash = dash::Dash::new(&settings);
    service.routes(move || {
        let routes = authoring::routes(Routes::new().problems(error::PROBLEMS), &desk);
        let routes = dash::routes(routes, &dash);
        runtime::routes(routes, &desk)
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

/// Columns without which no respondent must be let in.
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
