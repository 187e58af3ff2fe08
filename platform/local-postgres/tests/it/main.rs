//! Tests the private cluster with PostgreSQL's real programs.

mod lifecycle;
mod locations;
mod support;
