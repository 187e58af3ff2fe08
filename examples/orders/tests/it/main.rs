//! The example as its users meet it: over HTTP, as processes, killed and without its database.

mod bad_input;
mod broken_event;
mod burst;
mod kill;
mod logs;
mod restart;
mod support;
mod tour;
mod trace;
