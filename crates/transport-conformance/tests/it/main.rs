//! The suite itself: a broker that keeps its promises passes, each promise broken on purpose is found out, and PostgreSQL is
//! held to the same as every other bus.

mod broken;
mod kept;
mod memory;
mod postgres;
