//! Webhooks: tenants' own programs are told what happens.
//!
//! An endpoint is an address with filters and secrets. [`Source`]s name the facts that endpoints may subscribe to; a consumer
//! writes one delivery for each endpoint that wants an event, in the transaction that settles the message, with the bytes that will be
//! sent. A task of every worker claims deliveries that are due, endpoint by endpoint, sends them signed by
//! [Standard Webhooks](https://www.standardwebhooks.com), and writes down how it went.
//!
//! Every event reaches its endpoint at least once, with the same `webhook-id` each time, by which receivers tell what they have seen.
//! There is no order among deliveries. Endpoints do not get in each other's way: each has its own share of requests, and one that fails
//! gets less. [`guard`] keeps requests out of our own network; [`verify`] is for receivers.

mod body;
pub mod client;
mod commands;
mod dispatch;
mod error;
pub mod events;
mod fanout;
pub mod guard;
pub mod measure;
pub mod problems;
pub mod retry;
mod routes;
mod settings;
pub mod signature;
mod store;
mod sweep;
mod topology;
pub mod trust;
pub mod vault;

pub use settings::{SECTION, Settings};
pub use signature::{Secret, Signed, verify};
pub use topology::Source;

use onceward::prelude::*;
use std::sync::Arc;

/// The service, with all it owns. The exchanges of `sources` belong to other services.
pub fn service(settings: Settings, sources: Vec<Source>) -> Service {
    let settings = Arc::new(settings);
    let sender = settings.clone();
    let sweep = Schedule::new("webhooks-sweep", &settings.sweep_cron, "webhooks.ticks:sweep", events::Sweep::TYPE);
    Service::new("webhooks")
        .migrations(onceward_audit::MIGRATIONS)
        .migrations(MIGRATIONS)
        .requires(onceward_audit::REQUIRED)
        .requires(store::REQUIRED)
        .schemas(SCHEMAS)
        .topology(topology::topology(&sources))
        .consumer(Consumer::transactional("fan-out-webhooks", topology::FANOUT).unordered().on_any(fanout::FanOut))
        .consumer(
            Consumer::transactional("sweep-webhooks", topology::SWEEP)
                .on(sweep::OnSweep { keep_days: settings.retention_days, vault: vault::Vault::new(&settings) }),
        )
        .schedule(sweep)
        .task("send-webhooks", move |context| dispatch::run(context, sender.clone()))
        .figures(measure::describe)
        .sampler(measure::sample)
        .routes(move || routes::routes(&settings))
}

const MIGRATIONS: Migrations = Migrations {
    schema: "webhooks",
    steps: &[
        Migration { name: "0001_tables", sql: include_str!("../migrations/0001_tables.sql") },
        Migration { name: "0002_functions", sql: include_str!("../migrations/0002_functions.sql") },
    ],
};

const SCHEMAS: &[&str] = &[
    include_str!("../schemas/webhook.endpoint.v1.json"),
    include_str!("../schemas/webhook.endpoint.new.v1.json"),
    include_str!("../schemas/webhook.endpoint.created.v1.json"),
    include_str!("../schemas/webhook.endpoint.change.v1.json"),
    include_str!("../schemas/webhook.endpoint.list.v1.json"),
    include_str!("../schemas/webhook.endpoint_disabled.v1.json"),
    include_str!("../schemas/webhook.secret.rotate.v1.json"),
    include_str!("../schemas/webhook.secret.v1.json"),
    include_str!("../schemas/webhook.delivery.v1.json"),
    include_str!("../schemas/webhook.delivery.list.v1.json"),
    include_str!("../schemas/webhook.sending.v1.json"),
    include_str!("../schemas/webhook.replay.v1.json"),
    include_str!("../schemas/webhook.replayed.v1.json"),
    include_str!("../schemas/webhook.test.v1.json"),
    include_str!("../schemas/webhooks.sweep.v1.json"),
];
