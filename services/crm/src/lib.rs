//! Crm: contacts, and email by template that is sent once and can be proved.
//!
//! A request is one commit: the mail's rows, the message `crm.email.requested.v1` and an audit entry. A worker renders the
//! template, stores the exact bytes as an artifact, commits for each recipient that it is about to hand the mail over, and
//! only then calls a provider. What it does not know afterwards it records as unknown and never sends twice.
//!
//! Reading order: [`events`], `contacts`, `templates`, `permission` (who may be written to), `emails` (requests), `sending`,
//! `artifacts`, `changes` (audit and timeline), `keys`.

mod access;
mod artifacts;
mod changes;
pub mod cli;
mod contacts;
mod emails;
mod error;
pub mod events;
mod explain;
mod feedback;
mod html_response;
mod keys;
mod links;
mod lmtp;
mod loans;
mod mailbox;
pub mod measure;
mod pages;
mod permission;
mod senders;
mod sending;
mod settings;
mod slo;
mod state;
mod store;
mod story;
mod templates;
mod timeline;
pub mod topology;

pub(crate) use error::CrmError;
pub use error::{ALREADY_EXISTS, CONTACT_CHANGED, CONTACT_ERASED, EMAIL_INVALID, RECIPIENT_DENIED, TEMPLATE_INVALID};
pub use settings::{SECTION, Settings};

use onceward::prelude::*;
use state::CrmState;
use std::sync::Arc;

const MIGRATIONS: Migrations = Migrations {
    schema: "crm",
    steps: &[
        Migration { name: "0001_contacts", sql: include_str!("../migrations/0001_contacts.sql") },
        Migration { name: "0002_templates", sql: include_str!("../migrations/0002_templates.sql") },
        Migration { name: "0003_emails", sql: include_str!("../migrations/0003_emails.sql") },
        Migration { name: "0004_feedback", sql: include_str!("../migrations/0004_feedback.sql") },
        Migration { name: "0005_maintenance", sql: include_str!("../migrations/0005_maintenance.sql") },
    ],
};

/// Returns the service with everything it owns.
pub fn service(settings: Settings) -> Service {
    let state = CrmState::new(settings);
    let sweep_topic = format!("{}:{}", topology::NOTIFICATIONS, topology::SWEEP_KEY);
    let sweep = Schedule::new("crm-sweep", &state.settings.sweep_cron, &sweep_topic, events::CrmSweepTick::TYPE);
    let service = Service::new("crm")
        .migrations(onceward_audit::MIGRATIONS)
        .migrations(MIGRATIONS)
        .requires(onceward_audit::REQUIRED)
        .requires(store::REQUIRED)
        .schemas(contacts::SCHEMAS)
        .schemas(timeline::SCHEMAS)
        .schemas(templates::SCHEMAS)
        .schemas(senders::SCHEMAS)
        .schemas(emails::SCHEMAS)
        .schemas(feedback::SCHEMAS)
        .topology(topology::topology())
        .publishes::<events::EmailRequested>()
        .publishes::<events::EmailSent>()
        .publishes::<events::EmailFailed>()
        .publishes::<events::EmailSuppressed>()
        .publishes::<events::CrmSweepTick>()
        .publishes::<feedback::events::EmailDelivered>()
        .publishes::<feedback::events::EmailBounced>()
        .publishes::<feedback::events::EmailComplained>()
        .consumer(sending::consumer(state.clone()))
        .consumer(sending::sweep_consumer(state.clone()))
        .consumer(loans::consumer())
        .schedule(sweep)
        .metrics(measure::describe)
        .sampler(measure::sample)
        .story(story::contributions);
    let service = slo::slos().into_iter().fold(service, Service::slo);
    let service = sending::destinations(&state.settings).into_iter().fold(service, Service::destination);
    let service = feedback::tasks(service, &state);
    service.routes(move || routes(state.clone()))
}

/// Returns the routes of all areas. Problem codes are declared once, here.
fn routes(state: Arc<CrmState>) -> Routes {
    Routes::new()
        .problems(error::PROBLEMS)
        .merge(contacts::routes())
        .merge(timeline::routes())
        .merge(templates::routes())
        .merge(senders::routes())
        .merge(emails::routes(state.settings.max_message_bytes))
        .merge(mailbox::routes(&state.settings))
        .merge(feedback::routes())
        .merge(pages::routes())
        .with_state(state)
}
