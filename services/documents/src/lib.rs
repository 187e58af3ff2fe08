//! Documents: stores uploaded files unchanged and extracts loan data from their text.
//!
//! A document is a PDF or plain text; the content decides which, not the name. Requesting an analysis publishes a
//! message. A consumer reads a few pages per message; each step is one transaction that stores the pages' text and
//! publishes the progress. After the last page, [`fields`] finds loan numbers, borrowers, amounts and dates. Ambiguous
//! values are listed, not guessed.
//!
//! Documents come from outside and may be hostile: [`extract`] bounds the time, memory and output of reading one. A
//! file that cannot be read ends as a failed analysis with a reason; it never takes a consumer down.

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

/// Returns the service with its tables, schemas, topology, consumer and routes.
pub fn service(settings: Settings) -> Service {
    let consumer = consumer::consumer(&settings);
    Service::new("documents")
        .migrations(onceward_audit::MIGRATIONS)
        .migrations(MIGRATIONS)
        .requires(onceward_audit::REQUIRED)
        .requires(store::REQUIRED)
        .schemas(SCHEMAS)
        .topology(topology())
        .publishes::<events::DocumentProcess>()
        .publishes::<events::StatusUpdate>()
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
