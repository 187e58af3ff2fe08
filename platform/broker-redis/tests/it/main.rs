//! Redis as a bus, against a real server.

mod conformance;
mod crash;
mod dead_letters;
mod declaring;
mod handover;
mod properties;
mod publishing;
mod sharing;
mod support;
