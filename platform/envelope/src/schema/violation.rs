//! Descriptions of invalid values that do not repeat the value: it may be personal data.

use std::fmt;

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde::Serialize;
use serde_json::Value;

/// The maximum length of names and allowed values, so that a message stays on one line.
const SHOWN_CHARS_MAX: usize = 80;

/// One violation: where it is, and what must hold there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// A JSON pointer; for a missing field it points to the field.
    pub path: String,
    /// The violated rule, worded from the schema.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        write!(f, "{path}: {}", self.message)
    }
}

pub(super) fn join(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("; ")
}

/// Converts a library error, which becomes several violations if it lists several fields.
pub(super) fn from_error(error: ValidationError<'_>) -> Vec<Violation> {
    let path = error.instance_path().as_str();
    match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected.iter().map(|name| at_field(path, name, format!("unknown field {}", quoted(name)))).collect()
        }
        Kind::Required { property: Value::String(name) } => {
            vec![at_field(path, name, format!("{} is required", quoted(name)))]
        }
        kind => vec![Violation { path: path.to_owned(), message: message(kind) }],
    }
}

fn at_field(parent: &str, name: &str, message: String) -> Violation {
    let name = name.replace('~', "~0").replace('/', "~1");
    Violation { path: format!("{parent}/{name}"), message }
}

/// Describes an error using only the schema, never the instance.
fn message(kind: &Kind) -> String {
    match kind {
        Kind::AdditionalItems { limit } => format!("must have at most {limit} items"),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            format!("must have one of the {} allowed forms", context.len())
        }
        Kind::OneOfMultipleValid { .. } => "must have one of the allowed forms, not several".into(),
        Kind::Constant { expected_value } => format!("must be {}", shown(expected_value)),
        Kind::Contains => "must contain an item of the required form".into(),
        Kind::ContentEncoding { content_encoding } => {
            format!("must be encoded as {content_encoding}")
        }
        Kind::ContentMediaType { content_media_type } => format!("must be {content_media_type}"),
        Kind::Enum { options } => format!("must be one of {}", shown_options(options)),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be greater than {limit}"),
        Kind::FalseSchema => "is not allowed".into(),
        Kind::Format { format } => format!("must be a valid {format}"),
        Kind::MaxItems { limit } => format!("must have at most {limit} items"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::MaxLength { limit } => format!("must be at most {limit} characters long"),
        Kind::MaxProperties { limit } => format!("must have at most {limit} fields"),
        Kind::MinItems { limit } => format!("must have at least {limit} items"),
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::MinLength { limit } => format!("must be at least {limit} characters long"),
        Kind::MinProperties { limit } => format!("must have at least {limit} fields"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::Not { .. } => "has a form that is forbidden".into(),
        Kind::Pattern { pattern } => format!("must match {pattern}"),
        Kind::PropertyNames { error } => {
            format!("a field name is not allowed: {}", message(error.kind()))
        }
        Kind::Type { kind } => format!("must be {}", type_names(kind)),
        Kind::UnevaluatedItems { .. } => "has items that are not allowed".into(),
        Kind::UniqueItems => "must not have equal items".into(),
        other => format!("does not obey {:?}", other.keyword()),
    }
}

fn type_names(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(set) => set.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or "),
    }
}

fn shown_options(options: &Value) -> String {
    match options {
        Value::Array(options) => cut(&options.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")),
        other => shown(other),
    }
}

fn shown(value: &Value) -> String {
    cut(&value.to_string())
}

fn quoted(name: &str) -> String {
    // Debug escapes control characters: a field name comes from outside and may contain a line break.
    format!("{:?}", cut(name))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
