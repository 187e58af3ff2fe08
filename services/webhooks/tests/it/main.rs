//! Webhooks on a real database, with real receivers on this machine.

mod addresses;
mod breakers;
mod buses;
mod crash;
mod delivery;
mod dns_rebinding;
mod encryption;
mod endpoints;
mod event_types;
mod https;
mod isolation;
mod owner_operations;
mod retention;
mod retries;
mod secrets;
mod support;
mod trace;
