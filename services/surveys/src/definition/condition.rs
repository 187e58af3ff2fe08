//! The conditions of routes and quotas.

use super::{
    faults::quote,
    parse::RawCondition,
    types::{Question, QuestionKind},
};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cmp::Ordering;

/// A predicate over a respondent's answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", from = "RawCondition")]
pub enum Condition {
    /// Every part holds; always true without parts.
    All(Vec<Condition>),
    /// At least one part holds; always false without parts.
    Any(Vec<Condition>),
    /// The inner condition does not hold.
    Not(Box<Condition>),
    /// The question has an answer.
    Answered(QuestionRef),
    /// The answer equals this value, or has it among its choices.
    Equals {
        /// The question.
        #[serde(flatten)]
        question: QuestionRef,
        /// The answer.
        value: Value,
    },
    /// The answer equals one of these values, or has one of them among its choices.
    OneOf {
        /// The question.
        #[serde(flatten)]
        question: QuestionRef,
        /// The answers.
        values: Vec<Value>,
    },
    /// The number or date is at least this bound.
    AtLeast {
        /// The question.
        #[serde(flatten)]
        question: QuestionRef,
        /// The bound.
        value: Value,
    },
    /// The number or date is at most this bound.
    AtMost {
        /// The question.
        #[serde(flatten)]
        question: QuestionRef,
        /// The bound.
        value: Value,
    },
}

/// A question, or one row of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `question`")]
pub struct QuestionRef {
    /// The question's id.
    #[serde(rename = "question")]
    pub question_id: String,
    /// The row's id, if the question is a matrix.
    #[serde(default, rename = "row", skip_serializing_if = "Option::is_none")]
    pub row_id: Option<String>,
}

/// What is known about a question's answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnswerState<'a> {
    /// The question was not asked yet, but may be.
    NotAsked,
    /// It has no answer, and will have none unless the respondent goes back.
    Unanswered,
    /// The answer.
    Answered(&'a Value),
}

/// The maximum nesting depth of conditions.
pub const DEPTH_MAX: usize = 8;

impl Condition {
    /// Returns whether the condition holds, or `None` while that depends on questions that were not asked yet.
    pub fn decide<'a>(&self, state: &impl Fn(&str) -> AnswerState<'a>) -> Option<bool> {
        match self {
            Self::All(parts) => all_hold(parts.iter().map(|part| part.decide(state))),
            Self::Any(parts) => {
                let none = all_hold(parts.iter().map(|part| part.decide(state).map(|holds| !holds)));
                none.map(|none| !none)
            }
            Self::Not(part) => part.decide(state).map(|holds| !holds),
            Self::Answered(question) => question.test(state, |_| true),
            Self::Equals { question, value } => question.test(state, |answer| matches(answer, value)),
            Self::OneOf { question, values } => {
                question.test(state, |answer| values.iter().any(|value| matches(answer, value)))
            }
            Self::AtLeast { question, value } => question.test(state, |answer| compare(answer, value, Ordering::is_ge)),
            Self::AtMost { question, value } => question.test(state, |answer| compare(answer, value, Ordering::is_le)),
        }
    }

    /// Calls `visit` with every leaf and its location below this condition.
    pub(super) fn leaves<'c>(&'c self, pointer: &str, visit: &mut impl FnMut(String, &'c Condition)) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                let name = if matches!(self, Self::All(_)) { "all" } else { "any" };
                for (index, part) in parts.iter().enumerate() {
                    part.leaves(&format!("{pointer}/{name}/{index}"), visit);
                }
            }
            Self::Not(part) => part.leaves(&format!("{pointer}/not"), visit),
            leaf => visit(format!("{pointer}/{}", leaf.name()), leaf),
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

    /// Returns the question of a leaf.
    pub(super) fn question(&self) -> Option<&QuestionRef> {
        match self {
            Self::All(_) | Self::Any(_) | Self::Not(_) => None,
            Self::Answered(question)
            | Self::Equals { question, .. }
            | Self::OneOf { question, .. }
            | Self::AtLeast { question, .. }
            | Self::AtMost { question, .. } => Some(question),
        }
    }

    /// Returns why a leaf does not fit its question, or `None` if it does.
    pub(super) fn mismatch(&self, question: &Question) -> Option<String> {
        let row = self.question().and_then(|question| question.row_id.as_deref());
        match (&question.kind, row) {
            (QuestionKind::Matrix { rows, .. }, Some(row)) if !rows.iter().any(|one| one.id == row) => {
                return Some(format!("question {:?} has no row {}", question.id, quote(row)));
            }
            (QuestionKind::Matrix { .. }, None) if !matches!(self, Self::Answered(_)) => {
                return Some(format!("question {:?} is a matrix; name one of its rows", question.id));
            }
            (QuestionKind::Matrix { .. }, _) | (_, None) => {}
            (_, Some(_)) => return Some(format!("question {:?} is not a matrix and has no rows", question.id)),
        }
        match self {
            Self::Equals { value, .. } => impossible_value(question, value),
            Self::OneOf { values, .. } if values.is_empty() => {
                Some("the condition lists no values and never holds".to_owned())
            }
            Self::OneOf { values, .. } => values.iter().find_map(|value| impossible_value(question, value)),
            Self::AtLeast { value, .. } | Self::AtMost { value, .. } => not_comparable(question, value),
            _ => None,
        }
    }
}

impl QuestionRef {
    fn test<'a>(&self, state: &impl Fn(&str) -> AnswerState<'a>, test: impl FnOnce(&Value) -> bool) -> Option<bool> {
        match (state(&self.question_id), &self.row_id) {
            (AnswerState::NotAsked, _) => None,
            (AnswerState::Unanswered, _) => Some(false),
            (AnswerState::Answered(answer), None) => Some(test(answer)),
            (AnswerState::Answered(answer), Some(row)) => Some(answer.get(row).is_some_and(test)),
        }
    }
}

/// Kleene's conjunction: one false part decides, even if others are unknown.
fn all_hold(decisions: impl Iterator<Item = Option<bool>>) -> Option<bool> {
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

fn matches(answer: &Value, value: &Value) -> bool {
    match answer {
        Value::Array(chosen) => chosen.contains(value),
        Value::Number(number) => value.as_f64().is_some_and(|value| number.as_f64() == Some(value)),
        other => other == value,
    }
}

/// Compares numbers or dates. Dates are written so that their text order is their chronological order.
fn compare(answer: &Value, bound: &Value, wanted: impl FnOnce(Ordering) -> bool) -> bool {
    let order = match (answer, bound) {
        (Value::String(answer), Value::String(bound)) => Some(answer.cmp(bound)),
        _ => answer.as_f64().zip(bound.as_f64()).and_then(|(answer, bound)| answer.partial_cmp(&bound)),
    };
    order.is_some_and(wanted)
}

fn impossible_value(question: &Question, value: &Value) -> Option<String> {
    let is_choice = |choices: &[super::Choice]| choices.iter().any(|choice| value == choice.id.as_str());
    let fits = match &question.kind {
        QuestionKind::Single { options } | QuestionKind::Multiple { options, .. } => is_choice(options),
        QuestionKind::Matrix { columns, .. } => is_choice(columns),
        QuestionKind::Number { .. } => value.is_number(),
        QuestionKind::Scale { min, max, .. } => {
            value.as_i64().is_some_and(|value| (i64::from(*min)..=i64::from(*max)).contains(&value))
        }
        QuestionKind::Text { .. } => value.is_string(),
        QuestionKind::Date { .. } => is_date(value),
    };
    (!fits).then(|| format!("question {:?} cannot have the answer {}", question.id, quote(&value.to_string())))
}

fn not_comparable(question: &Question, bound: &Value) -> Option<String> {
    let (ordered, fits) = match question.kind {
        QuestionKind::Number { .. } | QuestionKind::Scale { .. } => (true, bound.is_number()),
        QuestionKind::Date { .. } => (true, is_date(bound)),
        _ => (false, false),
    };
    match (ordered, fits) {
        (true, true) => None,
        (true, false) => {
            Some(format!("question {:?} cannot be compared with {}", question.id, quote(&bound.to_string())))
        }
        _ => Some(format!("question {:?} cannot be compared; only numbers, scales and dates can", question.id)),
    }
}

/// Returns whether the value is a date in the only accepted format.
pub(super) fn is_date(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.parse::<Date>().is_ok_and(|date| date.to_string() == text)
}
