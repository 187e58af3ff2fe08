//! Documents: files that are kept as they came, and read for what they say.
//!
//! A document is a PDF or plain text, by its content and not by its name. Asking for its analysis is a message; a worker reads
//! it some pages at a time, each step one transaction that keeps the pages' text and tells how far it is. At the end
//! [`fields`] finds loan numbers, borrowers, amounts and dates. What can be read in two ways is listed, not guessed.
//!
//! A document comes from outside and may be hostile: [`extract`] bounds its time, its memory and its output, and a file
//! that cannot be read ends as a failed analysis with its reason, never as a lost worker.

mod commands;
mod consumer;
mod error;
pub mod events;
pub mod extract;
pub mod fields;
mod media;
mod routes;
mod settings;
mod store;
mod topology;

pub use error::DOCUMENT_EXISTS;
pub use media::MediaType;
pub use settings::{SECTION, Settings};
pub use topology::topology;

use onceward::prelude::*;

/// The service, with all it owns.
pub fn service(settings: Settings) -> Service {
    let consumer = consumer::consumer(&settings);
    Service::new("documents")
        .migrations(onceward_audit::MIGRATIONS)
        .migrations(MIGRATIONS)
        .requires(onceward_audit::REQUIRED)
        .requires(store::REQUIRED)
        .schemas(SCHEMAS)
        .topology(topology())
        .consumer(consumer)
        .routes(move || routes::routes(settings.max_bytes))
}

const MIGRATIONS: Migrations = Migrations {
    schema: "documents",
    steps: &[Migration { name: "0001_documents", sql: include_str!("../migrations/0001_documents.sql") }],
};

const SCHEMAS: &[&str] = &[
    include_str!("../schemas/document.v1.json"),
    include_str!("../schemas/document.accepted.v1.json"),
    include_str!("../schemas/document.fields.v1.json"),
    include_str!("../schemas/document.analysis.v1.json"),
    include_str!("../schemas/document.page.v1.json"),
    include_str!("../schemas/document.process.v1.json"),
    include_str!("../schemas/status.update.v1.json"),
];
