//! The `onceward` program as its users run it.

mod commands;
mod dlq;
mod health;
mod letters;
mod outbox;
mod settings;
mod support;
mod telemetry;
mod up;
mod up_again;
