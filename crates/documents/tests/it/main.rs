//! The document service against a real database: files in, what they say out, whatever they are.

mod analysis;
mod fields;
mod hostile;
mod support;
mod upload;
