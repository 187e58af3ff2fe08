//! The example as its users meet it: over HTTP, as processes, killed and without its database.

mod bad_input;
mod between;
mod broken_event;
mod burst;
mod kill;
mod logs;
mod network;
mod outage;
mod replay;
mod restart;
mod support;
mod tour;
mod trace;
