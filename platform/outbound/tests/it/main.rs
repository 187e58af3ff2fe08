//! Calls through breakers that processes share in a real PostgreSQL.

mod limits;
mod outages;
mod support;
