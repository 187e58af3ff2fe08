//! The `onceward` program as its users run it.

mod commands;
mod health;
mod settings;
mod support;
mod telemetry;
mod up;
mod up_again;
