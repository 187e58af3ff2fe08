//! What the tests share: the service inside the test's process, and files to give it.

mod archive;
pub mod pdf;

pub use archive::Archive;
