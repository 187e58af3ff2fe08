//! Webhooks: notify tenants' own programs of events.
//!
//! An endpoint is a URL with filters and secrets. [`EventSource`]s name the events that endpoints may subscribe to. A
//! consumer writes one delivery for each endpoint that subscribes to an event, in the transaction that settles the message,
//! with the bytes that will be sent. A task of every worker claims due deliveries, endpoint by endpoint, sends them
//! signed according to [Standard Webhooks](https://www.standardwebhooks.com), and records the results.
//!
//! Every event reaches its endpoint at least once, always with the same `webhook-id`, by which receivers detect
//! duplicates. Deliveries have no order. Endpoints do not slow each other down: each has its own share of requests, a breaker
//! and a retry budget, and a failing one gets less. [`guard`] keeps requests out of our own network; [`verify`] is for receivers.

pub mod cli;
pub mod client;
mod commands;
mod destination;
mod dispatch;
mod error;
mod event_types;
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
mod story;
mod sweep;
pub mod topology;
pub mod trust;
pub mod vault;

pub use settings::{SECTION, Settings};
pub use signature::{SignatureHeaders, WebhookSecret, verify};
pub use topology::EventSource;

use onceward::prelude::*;
use std::sync::Arc;

/// Returns the service with everything it owns. The exchanges of `sources` belong to other services.
pub fn service(settings: Settings, sources: Vec<EventSource>) -> Service {
    let settings = Arc::new(settings);
    let sender_settings = settings.clone();
    let event_types = event_types::EventTypes::of(&sources);
    let sweep_topic = format!("{}:{}", topology::TICKS_EXCHANGE, topology::SWEEP_ROUTING_KEY);
    let sweep = Schedule::new("webhooks-sweep", &settings.sweep_cron, &sweep_topic, events::SweepTick::TYPE);
    Service::new("webhooks")
        .migrations(onceward_audit::MIGRATIONS)
        .migrations(MIGRATIONS)
        .requires(onceward_audit::REQUIRED)
        .requires(store::REQUIRED)
        .schemas(SCHEMAS)
        .topology(topology::topology(&sources))
        .publishes::<events::EndpointDisabled>()
        .publishes::<events::SweepTick>()
        .consumer(
            Consumer::transactional("fan-out-webhooks", topology::FANOUT_QUEUE).unordered().on_any(fanout::FanOut),
        )
        .consumer(
            Consumer::transactional("sweep-webhooks", topology::SWEEP_QUEUE)
                .on(sweep::SweepHandler { keep_days: settings.retention_days, vault: vault::Vault::new(&settings) }),
        )
        .schedule(sweep)
        .destination(destination::destination(&settings))
        .task("send-webhooks", move |context| dispatch::run(context, sender_settings.clone()))
        .metrics(measure::describe)
        .sampler(measure::sample)
        .story(story::contributions)
        .routes(move || routes::routes(&settings, &event_types))
}

const MIGRATIONS: Migrations = Migrations {
    schema: "webhooks",
    steps: &[
        Migration { name: "0001_tables", sql: include_str!("../migrations/0001_tables.sql") },
        Migration { name: "0002_functions", sql: include_str!("../migrations/0002_functions.sql") },
        Migration { name: "0003_waiting_endpoints", sql: include_str!("../migrations/0003_waiting_endpoints.sql") },
    ],
};

const SCHEMAS: &[&str] = &[
    include_str!("../schemas/webhook.endpoint.v1.json"),
    include_str!("../schemas/webhook.endpoint.new.v1.json"),
    include_str!("../schemas/webhook.endpoint.created.v1.json"),
    include_str!("../schemas/webhook.endpoint.change.v1.json"),
    include_str!("../schemas/webhook.endpoint.list.v1.json"),
    include_str!("../schemas/webhook.endpoint.removed.v1.json"),
    include_str!("../schemas/webhook.endpoint_disabled.v1.json"),
    include_str!("../schemas/webhook.secret.rotate.v1.json"),
    include_str!("../schemas/webhook.secret.v1.json"),
    include_str!("../schemas/webhook.delivery.v1.json"),
    include_str!("../schemas/webhook.delivery.list.v1.json"),
    include_str!("../schemas/webhook.sending.v1.json"),
    include_str!("../schemas/webhook.replay.v1.json"),
    include_str!("../schemas/webhook.replayed.v1.json"),
    include_str!("../schemas/webhook.test.v1.json"),
    include_str!("../schemas/webhook.event_types.v1.json"),
    include_str!("../schemas/webhooks.sweep.v1.json"),
];
