//! What routes and quotas decide by.

use super::types::{Question, QuestionKind};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cmp::Ordering;

/// Something that holds for some answers and not for others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Each of them holds; without any, always.
    All(Vec<Condition>),
    /// One of them holds; without any, never.
    Any(Vec<Condition>),
    /// It does not hold.
    Not(Box<Condition>),
    /// The question has an answer.
    Answered(Asked),
    /// The answer is this one, or has it among its choices.
    Equals {
        /// Of which question.
        #[serde(flatten)]
        asked: Asked,
        /// The answer.
        value: Value,
    },
    /// The answer is one of these, or has one of them among its choices.
    OneOf {
        /// Of which question.
        #[serde(flatten)]
        asked: Asked,
        /// The answers.
        values: Vec<Value>,
    },
    /// The number or day is this one or a later one.
    AtLeast {
        /// Of which question.
        #[serde(flatten)]
        asked: Asked,
        /// The bound.
        value: Value,
    },
    /// The number or day is this one or an earlier one.
    AtMost {
        /// Of which question.
        #[serde(flatten)]
        asked: Asked,
        /// The bound.
        value: Value,
    },
}

/// A question, or one row of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Its id.
    pub question: String,
    /// The id of the row, where the question is a matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
}

/// What is known of a question's answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known<'a> {
    /// It was not asked yet, and may be.
    NotYet,
    /// It has none, and will have none unless the respondent goes back.
    Nothing,
    /// This one.
    Answer(&'a Value),
}

/// How deep conditions may be nested.
pub const DEPTH_MAX: usize = 8;

impl Condition {
    /// Whether it holds; `None` while that depends on what was not asked yet.
    pub fn decide<'a>(&self, known: &impl Fn(&str) -> Known<'a>) -> Option<bool> {
        match self {
            Self::All(parts) => every(parts.iter().map(|part| part.decide(known))),
            Self::Any(parts) => {
                let none = every(parts.iter().map(|part| part.decide(known).map(|holds| !holds)));
                none.map(|none| !none)
            }
            Self::Not(part) => part.decide(known).map(|holds| !holds),
            Self::Answered(asked) => asked.test(known, |_| true),
            Self::Equals { asked, value } => asked.test(known, |answer| has(answer, value)),
            Self::OneOf { asked, values } => asked.test(known, |answer| values.iter().any(|value| has(answer, value))),
            Self::AtLeast { asked, value } => asked.test(known, |answer| compare(answer, value, Ordering::is_ge)),
            Self::AtMost { asked, value } => asked.test(known, |answer| compare(answer, value, Ordering::is_le)),
        }
    }

    /// Calls `visit` with every leaf and its place below this one.
    pub(super) fn leaves<'c>(&'c self, place: &str, visit: &mut impl FnMut(String, &'c Condition)) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                let name = if matches!(self, Self::All(_)) { "all" } else { "any" };
                for (index, part) in parts.iter().enumerate() {
                    part.leaves(&format!("{place}.{name}[{index}]"), visit);
                }
            }
            Self::Not(part) => part.leaves(&format!("{place}.not"), visit),
            leaf => visit(format!("{place}.{}", leaf.name()), leaf),
        }
    }

    pub(super) fn depth(&self) -> usize {
        match self {
            Self::All(parts) | Self::Any(parts) => 1 + parts.iter().map(Self::depth).max().unwrap_or(0),
            Self::Not(part) => 1 + part.depth(),
            _ => 1,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::All(_) => "all",
            Self::Any(_) => "any",
            Self::Not(_) => "not",
            Self::Answered(_) => "answered",
            Self::Equals { .. } => "equals",
            Self::OneOf { .. } => "one_of",
            Self::AtLeast { .. } => "at_least",
            Self::AtMost { .. } => "at_most",
        }
    }

    /// The question of a leaf.
    pub(super) fn asked(&self) -> Option<&Asked> {
        match self {
            Self::All(_) | Self::Any(_) | Self::Not(_) => None,
            Self::Answered(asked)
            | Self::Equals { asked, .. }
            | Self::OneOf { asked, .. }
            | Self::AtLeast { asked, .. }
            | Self::AtMost { asked, .. } => Some(asked),
        }
    }

    /// Why a leaf does not fit its question.
    pub(super) fn misfit(&self, question: &Question) -> Option<String> {
        let row = self.asked().and_then(|asked| asked.row.as_deref());
        match (&question.kind, row) {
            (QuestionKind::Matrix { rows, .. }, Some(row)) if !rows.iter().any(|one| one.id == row) => {
                return Some(format!("question {:?} has no row {row:?}", question.id));
            }
            (QuestionKind::Matrix { .. }, None) if !matches!(self, Self::Answered(_)) => {
                return Some(format!("question {:?} is a matrix: name one of its rows", question.id));
            }
            (QuestionKind::Matrix { .. }, _) | (_, None) => {}
            (_, Some(_)) => return Some(format!("question {:?} is no matrix and has no rows", question.id)),
        }
        match self {
            Self::Equals { value, .. } => cannot_be(question, value),
            Self::OneOf { values, .. } if values.is_empty() => Some("it names no values and never holds".to_owned()),
            Self::OneOf { values, .. } => values.iter().find_map(|value| cannot_be(question, value)),
            Self::AtLeast { value, .. } | Self::AtMost { value, .. } => has_no_order(question, value),
            _ => None,
        }
    }
}

impl Asked {
    fn test<'a>(&self, known: &impl Fn(&str) -> Known<'a>, test: impl FnOnce(&Value) -> bool) -> Option<bool> {
        match (known(&self.question), &self.row) {
            (Known::NotYet, _) => None,
            (Known::Nothing, _) => Some(false),
            (Known::Answer(answer), None) => Some(test(answer)),
            (Known::Answer(answer), Some(row)) => Some(answer.get(row).is_some_and(test)),
        }
    }
}

/// Kleene's: one that does not hold decides, whatever is not known yet.
fn every(decisions: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for decision in decisions {
        match decision {
            Some(true) => {}
            Some(false) => return Some(false),
            None => all = None,
        }
    }
    all
}

fn has(answer: &Value, value: &Value) -> bool {
    match answer {
        Value::Array(chosen) => chosen.contains(value),
        Value::Number(number) => value.as_f64().is_some_and(|value| number.as_f64() == Some(value)),
        other => other == value,
    }
}

/// Days are written so that the order of their letters is theirs.
fn compare(answer: &Value, bound: &Value, wanted: impl FnOnce(Ordering) -> bool) -> bool {
    let order = match (answer, bound) {
        (Value::String(answer), Value::String(bound)) => Some(answer.cmp(bound)),
        _ => answer.as_f64().zip(bound.as_f64()).and_then(|(answer, bound)| answer.partial_cmp(&bound)),
    };
    order.is_some_and(wanted)
}

fn cannot_be(question: &Question, value: &Value) -> Option<String> {
    let chosen = |choices: &[super::Choice]| choices.iter().any(|choice| value == choice.id.as_str());
    let fits = match &question.kind {
        QuestionKind::Single { options } | QuestionKind::Multiple { options, .. } => chosen(options),
        QuestionKind::Matrix { columns, .. } => chosen(columns),
        QuestionKind::Number { .. } => value.is_number(),
        QuestionKind::Scale { min, max } => {
            value.as_i64().is_some_and(|value| (i64::from(*min)..=i64::from(*max)).contains(&value))
        }
        QuestionKind::Text { .. } => value.is_string(),
        QuestionKind::Date { .. } => is_day(value),
    };
    (!fits).then(|| format!("question {:?} is never answered with {value}", question.id))
}

fn has_no_order(question: &Question, bound: &Value) -> Option<String> {
    let (ordered, fits) = match question.kind {
        QuestionKind::Number { .. } | QuestionKind::Scale { .. } => (true, bound.is_number()),
        QuestionKind::Date { .. } => (true, is_day(bound)),
        _ => (false, false),
    };
    match (ordered, fits) {
        (true, true) => None,
        (true, false) => Some(format!("question {:?} cannot be compared with {bound}", question.id)),
        _ => Some(format!(
            "question {:?} has answers without an order: only numbers, scales and dates have",
            question.id
        )),
    }
}

/// In the one form in which days are answered.
pub(super) fn is_day(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.parse::<Date>().is_ok_and(|date| date.to_string() == text)
}
