//! The example as its users see it: over HTTP, as processes, killed and without its database.

mod backlog;
mod bad_input;
mod broker_outage;
mod burst;
mod catch_up;
mod crash_windows;
mod database_crash;
mod invalid_event;
mod kill;
mod logs;
mod order_flow;
mod silent_network;
mod support;
mod trace;
