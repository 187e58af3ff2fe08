//! The problems of this service's own.

use onceward::ProblemCode;

/// The document's id is taken by other content.
pub const DOCUMENT_EXISTS: ProblemCode = ProblemCode::new(
    "document-exists",
    409,
    "There is a document with this id and other content already",
    include_str!("../../../docs/problems/document-exists.md"),
);
