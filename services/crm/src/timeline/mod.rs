//! What happened to a contact, latest first: a projection of the tenant's audit chain.
//!
//! `changes` writes a line in the commit of its audit entry; [`rebuild`] deletes the lines of a contact and recreates them
//! from the chain alone.

mod rebuild;
mod routes;
mod schemas;
mod store;

pub(crate) use rebuild::rebuild;
pub(crate) use routes::routes;
pub(crate) use schemas::SCHEMAS;
pub(crate) use store::{TimelineLine, insert};
