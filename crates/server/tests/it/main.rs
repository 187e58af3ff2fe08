//! The `onceward` program as its users run it.

mod audit;
mod commands;
mod dlq;
mod doctor;
mod health;
mod keys;
mod ledger;
mod letters;
mod outbox;
mod payments;
mod plug;
#[path = "../../src/services.rs"]
mod services;
mod settings;
mod slo;
mod support;
mod telemetry;
mod topology;
mod trace;
mod up;
mod up_again;
mod webhooks;
