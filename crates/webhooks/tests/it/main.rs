//! Webhooks on a real database, with real receivers on this machine.

mod addresses;
mod buses;
mod crash;
mod delivery;
mod endpoints;
mod https;
mod isolation;
mod operate;
mod rebinding;
mod retention;
mod retries;
mod sealed;
mod secrets;
mod support;
