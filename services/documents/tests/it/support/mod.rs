//! Test support: the service in the test's process, and PDF files.

mod fixture;
pub mod pdf;

pub use fixture::DocumentsFixture;
