//! Parses definitions and conditions strictly: an unknown field is rejected wherever it occurs.

use super::{
    Choice, Condition, Question, QuestionKind, SurveyDefinition,
    condition::QuestionRef,
    faults::{DefinitionFault, escape_pointer, quote},
};
use jiff::civil::Date;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use serde_path_to_error::Segment;
use std::fmt;

/// The maximum length of a parser's error message that is passed on, in characters.
const MESSAGE_MAX: usize = 300;

/// Parses a definition. Checks only its form; all other checks run when it is published.
pub fn parse_definition(given: &Value) -> Result<SurveyDefinition, DefinitionFault> {
    parse(given)
}

/// Parses `given` as a `T`. The fault contains where and why parsing stopped, without Rust type names.
pub fn parse<T: DeserializeOwned>(given: &Value) -> Result<T, DefinitionFault> {
    serde_path_to_error::deserialize(given).map_err(|error| {
        let pointer = error.path().iter().map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } | Segment::Enum { variant: key } => format!("/{}", escape_pointer(key)),
            Segment::Unknown => String::new(),
        });
        DefinitionFault { pointer: pointer.collect(), message: without_rust_terms(&error.inner().to_string()) }
    })
}

/// Rewrites a parser's error message without Rust terms.
fn without_rust_terms(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return truncate(message);
    };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        other if ["struct ", "enum ", "tuple "].iter().any(|word| other.starts_with(word)) => "an object",
        other => other,
    };
    truncate(&format!("{}, expected {expected}", truncate(found)))
}

fn truncate(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

/// A question with the fields of every type; whether they belong to its type is checked afterwards.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct RawQuestion {
    id: String,
    text: String,
    #[serde(default)]
    required: bool,
    #[serde(rename = "type")]
    kind: RawQuestionKind,
    options: Option<Vec<Choice>>,
    min_choices: Option<u32>,
    max_choices: Option<u32>,
    min: Option<Value>,
    max: Option<Value>,
    integer: Option<bool>,
    min_length: Option<u32>,
    max_length: Option<u32>,
    pattern: Option<String>,
    min_label: Option<String>,
    max_label: Option<String>,
    rows: Option<Vec<Choice>>,
    columns: Option<Vec<Choice>>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case", expecting = "a type of question")]
enum RawQuestionKind {
    Single,
    Multiple,
    Number,
    Text,
    Date,
    Scale,
    Matrix,
}

impl RawQuestionKind {
    /// Returns the type's name and the fields that only this type has.
    const fn fields(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Single => ("single", &["options"]),
            Self::Multiple => ("multiple", &["options", "min_choices", "max_choices"]),
            Self::Number => ("number", &["min", "max", "integer"]),
            Self::Text => ("text", &["min_length", "max_length", "pattern"]),
            Self::Date => ("date", &["min", "max"]),
            Self::Scale => ("scale", &["min", "max", "min_label", "max_label"]),
            Self::Matrix => ("matrix", &["rows", "columns"]),
        }
    }
}

impl RawQuestion {
    /// Returns the fields that are present and that not every type has.
    fn present_fields(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("options", self.options.is_some()),
            ("min_choices", self.min_choices.is_some()),
            ("max_choices", self.max_choices.is_some()),
            ("min", self.min.is_some()),
            ("max", self.max.is_some()),
            ("integer", self.integer.is_some()),
            ("min_length", self.min_length.is_some()),
            ("max_length", self.max_length.is_some()),
            ("pattern", self.pattern.is_some()),
            ("min_label", self.min_label.is_some()),
            ("max_label", self.max_label.is_some()),
            ("rows", self.rows.is_some()),
            ("columns", self.columns.is_some()),
        ];
        all.into_iter().filter_map(|(name, given)| given.then_some(name))
    }
}

impl TryFrom<RawQuestion> for Question {
    type Error = QuestionParseError;

    fn try_from(raw: RawQuestion) -> Result<Self, QuestionParseError> {
        let (name, fields) = raw.kind.fields();
        if let Some(other) = raw.present_fields().find(|field| !fields.contains(field)) {
            let known = fields.join("`, `");
            return Err(QuestionParseError(format!(
                "unknown field `{other}`: a question of type `{name}` has `{known}`"
            )));
        }
        let kind = match raw.kind {
            RawQuestionKind::Single => QuestionKind::Single { options: required("options", raw.options)? },
            RawQuestionKind::Multiple => QuestionKind::Multiple {
                options: required("options", raw.options)?,
                min_choices: raw.min_choices,
                max_choices: raw.max_choices,
            },
            RawQuestionKind::Number => QuestionKind::Number {
                min: number("min", raw.min)?,
                max: number("max", raw.max)?,
                integer: raw.integer.unwrap_or(false),
            },
            RawQuestionKind::Text => {
                QuestionKind::Text { min_length: raw.min_length, max_length: raw.max_length, pattern: raw.pattern }
            }
            RawQuestionKind::Date => QuestionKind::Date { min: date("min", raw.min)?, max: date("max", raw.max)? },
            RawQuestionKind::Scale => QuestionKind::Scale {
                min: integer("min", raw.min)?,
                max: integer("max", raw.max)?,
                min_label: raw.min_label,
                max_label: raw.max_label,
            },
            RawQuestionKind::Matrix => {
                QuestionKind::Matrix { rows: required("rows", raw.rows)?, columns: required("columns", raw.columns)? }
            }
        };
        Ok(Self { id: raw.id, text: raw.text, required: raw.required, kind })
    }
}

/// Why a question cannot be parsed.
#[derive(Debug)]
pub(super) struct QuestionParseError(String);

impl fmt::Display for QuestionParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn required<T>(field: &str, given: Option<T>) -> Result<T, QuestionParseError> {
    given.ok_or_else(|| QuestionParseError(format!("missing field `{field}`")))
}

fn number(field: &str, given: Option<Value>) -> Result<Option<f64>, QuestionParseError> {
    given.map(|value| value.as_f64().ok_or_else(|| mismatch(field, &value, "a number"))).transpose()
}

fn date(field: &str, given: Option<Value>) -> Result<Option<Date>, QuestionParseError> {
    let parse = |value: Value| {
        value
            .as_str()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| mismatch(field, &value, "a date such as 2026-01-31"))
    };
    given.map(parse).transpose()
}

fn integer(field: &str, given: Option<Value>) -> Result<i32, QuestionParseError> {
    let value = required(field, given)?;
    let integer = value.as_i64().and_then(|whole| i32::try_from(whole).ok());
    integer.ok_or_else(|| mismatch(field, &value, "a 32-bit whole number"))
}

fn mismatch(field: &str, value: &Value, expected: &str) -> QuestionParseError {
    QuestionParseError(format!("`{field}` is {}, expected {expected}", quote(&value.to_string())))
}

/// A condition as authors write it.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", expecting = "a condition such as {\"answered\": {\"question\": \"id\"}}")]
pub(super) enum RawCondition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Answered(QuestionRef),
    Equals(RawComparison),
    OneOf(RawOneOf),
    AtLeast(RawComparison),
    AtMost(RawComparison),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `question` and `value`")]
pub(super) struct RawComparison {
    question: String,
    row: Option<String>,
    value: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `question` and `values`")]
pub(super) struct RawOneOf {
    question: String,
    row: Option<String>,
    values: Vec<Value>,
}

impl From<RawCondition> for Condition {
    fn from(raw: RawCondition) -> Self {
        let split =
            |RawComparison { question, row, value }| (QuestionRef { question_id: question, row_id: row }, value);
        match raw {
            RawCondition::All(parts) => Self::All(parts),
            RawCondition::Any(parts) => Self::Any(parts),
            RawCondition::Not(part) => Self::Not(part),
            RawCondition::Answered(question) => Self::Answered(question),
            RawCondition::Equals(comparison) => {
                let (question, value) = split(comparison);
                Self::Equals { question, value }
            }
            RawCondition::OneOf(RawOneOf { question, row, values }) => {
                Self::OneOf { question: QuestionRef { question_id: question, row_id: row }, values }
            }
            RawCondition::AtLeast(comparison) => {
                let (question, value) = split(comparison);
                Self::AtLeast { question, value }
            }
            RawCondition::AtMost(comparison) => {
                let (question, value) = split(comparison);
                Self::AtMost { question, value }
            }
        }
    }
}
