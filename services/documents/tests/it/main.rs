//! The document service against a real database: upload, analysis, extracted fields, hostile files.

mod analysis;
mod fields;
mod hostile_files;
mod support;
mod upload;
