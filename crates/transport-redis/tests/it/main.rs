//! Redis as a bus, against a real server.

mod burying;
mod conformance;
mod crash;
mod declaring;
mod handover;
mod publishing;
mod sharing;
mod support;
mod trimming;
