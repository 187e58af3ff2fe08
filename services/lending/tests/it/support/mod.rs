//! Shared fixtures of the lending tests.

mod client;
mod direct_posting;
mod fixture;

pub use client::{AcceptedLoan, ApiClient};
pub use fixture::LendingFixture;
