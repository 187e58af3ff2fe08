//! The problem codes of this service.

use onceward::ProblemCode;

/// The id belongs to a document with different content.
pub const DOCUMENT_EXISTS: ProblemCode = ProblemCode::new(
    "document-exists",
    409,
    "A document with this id already exists with different content",
    include_str!("../problems/document-exists.md"),
);
