//! Tests of the suite itself: a correct broker passes, and each deliberate violation is found. Also runs the whole
//! platform on each bus.

mod broken;
mod broken_platform;
mod buses;
mod correct;
mod memory_broker;
