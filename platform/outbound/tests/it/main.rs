//! Calls through breakers that processes share in a real PostgreSQL.

mod outages;
mod support;
