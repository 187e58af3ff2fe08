//! The message format of every bus, and the contracts that payloads are checked against.
//!
//! - [`Envelope`]: a payload with its metadata (who, what, when and why); one JSON form for every transport.
//! - [`EnvelopeParts`]: the same, borrowed, for code that only forwards messages.
//! - [`SchemaRegistry`]: JSON Schemas by `$id`, checked before a message is stored and before it is handled.
//! - [`canonical`]: RFC 8785 JSON, so that equal content has equal bytes; [`fingerprint`] hashes it.
//! - [`Clock`]: the source of time for messages and audit entries.
//!
//! Nothing here does I/O, and no error message repeats a value from a payload.

pub mod canonical;
mod clock;
mod envelope;
mod event_type;
mod fingerprint;
pub mod headers;
mod ids;
pub mod nul;
mod parse;
mod parts;
mod payload;
mod schema;
mod trace;

pub use clock::{Clock, SystemClock};
pub use envelope::{Actor, ENVELOPE_SCHEMA_VERSION, Envelope, FIELD_NAMES};
pub use event_type::EventType;
pub use fingerprint::{fingerprint, fingerprint_hex};
pub use ids::{CorrelationId, IdempotencyKey, InvalidId, TenantId};
pub use parse::EnvelopeError;
pub use parts::{EnvelopeParts, IdText, append_time};
pub use payload::{Payload, PayloadError};
pub use schema::{RegistryError, SchemaError, SchemaRegistry, SchemaRegistryBuilder, Violation};
pub use trace::TraceContext;
