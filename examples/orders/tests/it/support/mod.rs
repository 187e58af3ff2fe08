//! Shared fixtures.

pub mod api;
pub mod bus;
pub mod check;
pub mod fixture;
pub mod latency;
pub mod load;
pub mod processes;
pub mod sql_publisher;
