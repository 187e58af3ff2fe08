//! Checks the answers on one page.

use super::{
    Choice, Question, QuestionKind, Questionnaire,
    condition::is_date,
    faults::{FAULTS_MAX, and_more, quote},
    pattern::PATTERN_TEXT_MAX,
    size::{ANSWERS_BYTES_MAX, answers_bytes},
    types::TEXT_MAX,
};
use jiff::civil::Date;
use onceward::envelope::nul;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// A fault of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerFault {
    /// The question's id. Empty if the fault does not belong to one question, such as the last fault of a list, which
    /// contains the number of unlisted faults.
    pub question: String,
    /// The rule that the answer breaks, for the respondent.
    pub message: String,
}

/// A page's valid answers, as they are stored.
pub type PageAnswers = Map<String, Value>;

impl Questionnaire {
    /// Checks the answers of a page and returns them without empty ones, as they are stored; or returns their faults,
    /// up to a limit.
    pub fn check_page(&self, page: usize, given: &Map<String, Value>) -> Result<PageAnswers, Vec<AnswerFault>> {
        let bytes = answers_bytes(self.page(page), given);
        if bytes > ANSWERS_BYTES_MAX {
            let message = format!(
                "the texts of this page have {bytes} bytes of HTML; at most {ANSWERS_BYTES_MAX} are allowed. Shorten them"
            );
            return Err(vec![AnswerFault { question: String::new(), message }]);
        }
        let questions = &self.page(page).questions;
        let mut faults: Vec<AnswerFault> = Vec::new();
        let mut more = 0;
        let mut add = |question: &str, message: String| match faults.len() {
            FAULTS_MAX.. => more += 1,
            _ => faults.push(AnswerFault { question: question.to_owned(), message }),
        };
        for name in given.keys().filter(|name| self.page_of(name) != Some(page)) {
            add(name, "is not asked on this page".to_owned());
        }
        let mut valid = Map::new();
        for question in questions {
            let answer = given.get(&question.id).filter(|answer| !is_empty_answer(answer));
            let fault = match answer {
                None if question.required => Some("needs an answer".to_owned()),
                None => None,
                Some(answer) => self.answer_fault(question, answer),
            };
            match (fault, answer) {
                (Some(message), _) => add(&question.id, message),
                (None, Some(answer)) => drop(valid.insert(question.id.clone(), answer.clone())),
                (None, None) => {}
            }
        }
        faults.extend(and_more(more).map(|message| AnswerFault { question: String::new(), message }));
        if faults.is_empty() { Ok(valid) } else { Err(faults) }
    }

    fn answer_fault(&self, question: &Question, answer: &Value) -> Option<String> {
        match &question.kind {
            QuestionKind::Single { options } => {
                (!is_one_of(answer, options)).then(|| "is not one of the choices".into())
            }
            QuestionKind::Multiple { options, min_choices, max_choices } => {
                choices(answer, options, min_choices.unwrap_or(0), max_choices.unwrap_or(u32::MAX))
            }
            QuestionKind::Number { min, max, integer } => number(answer, *min, *max, *integer),
            QuestionKind::Text { min_length, max_length, .. } => self.text(question, answer, *min_length, *max_length),
            QuestionKind::Date { min, max } => {
                let date: Option<Date> = answer.as_str().filter(|_| is_date(answer)).and_then(|text| text.parse().ok());
                let Some(date) = date else {
                    return Some("is not a date; write it like 2026-01-31".into());
                };
                match (min, max) {
                    (Some(min), _) if date < *min => Some(format!("is before {min}")),
                    (_, Some(max)) if date > *max => Some(format!("is after {max}")),
                    _ => None,
                }
            }
            QuestionKind::Scale { min, max, .. } => {
                let is_on_scale =
                    answer.as_i64().is_some_and(|value| (i64::from(*min)..=i64::from(*max)).contains(&value));
                (!is_on_scale).then(|| format!("must be a whole number from {min} to {max}"))
            }
            QuestionKind::Matrix { rows, columns } => matrix(question, answer, rows, columns),
        }
    }

    fn text(&self, question: &Question, answer: &Value, min: Option<u32>, max: Option<u32>) -> Option<String> {
        let Some(text) = answer.as_str() else {
            return Some("must be text".into());
        };
        if nul::in_value(answer) {
            return Some("contains a character that cannot be stored".into());
        }
        let length = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let pattern = self.pattern(question);
        let (min, max) = (min.unwrap_or(0), max.unwrap_or(if pattern.is_some() { PATTERN_TEXT_MAX } else { TEXT_MAX }));
        if length < min {
            return Some(format!("has {length} characters; at least {min} are required"));
        }
        if length > max {
            return Some(format!("has {length} characters; at most {max} are allowed"));
        }
        let matches = pattern.is_none_or(|pattern| pattern.is_match(text));
        (!matches).then(|| "does not match the required format".into())
    }
}

/// Returns whether an answer is empty. Forms send empty answers for questions that were skipped.
fn is_empty_answer(answer: &Value) -> bool {
    match answer {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn is_one_of(answer: &Value, choices: &[Choice]) -> bool {
    choices.iter().any(|choice| answer == choice.id.as_str())
}

fn choices(answer: &Value, options: &[Choice], min: u32, max: u32) -> Option<String> {
    let Some(chosen) = answer.as_array() else {
        return Some("must be a list of choices".into());
    };
    // Checked before any comparison, because the sender decides how long the list is.
    if chosen.len() > options.len() {
        return Some(format!("has {} choices, but the question has only {}", chosen.len(), options.len()));
    }
    if !chosen.iter().all(|choice| is_one_of(choice, options)) {
        return Some("contains something that is not one of the choices".into());
    }
    let mut seen = HashSet::new();
    if !chosen.iter().filter_map(Value::as_str).all(|choice| seen.insert(choice)) {
        return Some("contains a choice twice".into());
    }
    let count = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
    match count {
        _ if count < min => Some(format!("has {count} choices; at least {min} are required")),
        _ if count > max => Some(format!("has {count} choices; at most {max} are allowed")),
        _ => None,
    }
}

fn number(answer: &Value, min: Option<f64>, max: Option<f64>, integer: bool) -> Option<String> {
    let Some(number) = answer.as_f64() else {
        return Some("must be a number".into());
    };
    match (min, max) {
        (Some(min), _) if number < min => Some(format!("is less than {min}")),
        (_, Some(max)) if number > max => Some(format!("is more than {max}")),
        _ if integer && number.fract() != 0.0 => Some("must be a whole number".into()),
        _ => None,
    }
}

fn matrix(question: &Question, answer: &Value, rows: &[Choice], columns: &[Choice]) -> Option<String> {
    let Some(chosen) = answer.as_object() else {
        return Some("must be an object with one entry per row".into());
    };
    if chosen.len() > rows.len() {
        return Some(format!("has {} rows, but the question has only {}", chosen.len(), rows.len()));
    }
    if let Some(row) = chosen.keys().find(|row| !rows.iter().any(|one| one.id == **row)) {
        return Some(format!("contains the unknown row {}", quote(row)));
    }
    if !chosen.values().all(|column| is_one_of(column, columns)) {
        return Some("contains something that is not one of the columns".into());
    }
    let missing = rows.iter().find(|row| question.required && !chosen.contains_key(&row.id));
    missing.map(|row| format!("needs an answer in row {:?}", row.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the fault of `answer` to a question of this kind.
    fn fault_of(kind: Value, answer: Value) -> Option<String> {
        let mut question = json!({"id": "q", "text": "?"});
        question.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        let definition = json!({"pages": [{"id": "p", "questions": [question]}]});
        let questionnaire =
            Questionnaire::new(serde_json::from_value(definition).unwrap()).expect("the definition is valid");
        let read = questionnaire.check_page(0, json!({ "q": answer }).as_object().unwrap());
        read.err().map(|faults| faults[0].message.clone())
    }

    #[test]
    fn answers_are_checked_against_their_question() {
        let choices = json!([{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]);
        let single = json!({"type": "single", "options": choices, "required": true});
        let multiple = json!({"type": "multiple", "options": choices, "min_choices": 2});
        let number = json!({"type": "number", "min": 1, "max": 9, "integer": true});
        let text = json!({"type": "text", "min_length": 2, "max_length": 4, "pattern": "[a-zä]+"});
        let date = json!({"type": "date", "min": "2026-01-01", "max": "2026-12-31"});
        let scale = json!({"type": "scale", "min": -2, "max": 2});
        let matrix =
            json!({"type": "matrix", "rows": choices, "columns": [{"id": "x", "label": "X"}], "required": true});
        let cases = [
            (&single, json!("a"), None),
            (&single, json!("c"), Some("is not one of the choices")),
            (&single, json!(""), Some("needs an answer")),
            (&multiple, json!(["a", "b"]), None),
            (&multiple, json!([]), None),
            (&multiple, json!(["a"]), Some("has 1 choices; at least 2 are required")),
            (&multiple, json!(["a", "a"]), Some("contains a choice twice")),
            (&multiple, json!(["a", "c"]), Some("contains something that is not one of the choices")),
            (&multiple, json!(["a", "a", "a"]), Some("has 3 choices, but the question has only 2")),
            (&number, json!(9), None),
            (&number, json!(9.0), None),
            (&number, json!(2.5), Some("must be a whole number")),
            (&number, json!(10), Some("is more than 9")),
            (&number, json!("5"), Some("must be a number")),
            (&text, json!("äb"), None),
            (&text, json!("a"), Some("has 1 characters; at least 2 are required")),
            (&text, json!("abcde"), Some("has 5 characters; at most 4 are allowed")),
            (&text, json!("ab\n"), Some("does not match the required format")),
            (&text, json!("a\0b"), Some("contains a character that cannot be stored")),
            (&date, json!("2026-02-28"), None),
            (&date, json!("2026-02-30"), Some("is not a date; write it like 2026-01-31")),
            (&date, json!("20260228"), Some("is not a date; write it like 2026-01-31")),
            (&date, json!("2027-01-01"), Some("is after 2026-12-31")),
            (&scale, json!(-2), None),
            (&scale, json!(3), Some("must be a whole number from -2 to 2")),
            (&matrix, json!({"a": "x", "b": "x"}), None),
            (&matrix, json!({"a": "x"}), Some("needs an answer in row \"b\"")),
            (&matrix, json!({"a": "x", "z": "x"}), Some("contains the unknown row \"z\"")),
            (&matrix, json!({"a": "x", "b": "x", "z": "x"}), Some("has 3 rows, but the question has only 2")),
            (&matrix, json!({"a": "y", "b": "x"}), Some("contains something that is not one of the columns")),
        ];
        for (kind, answer, expected) in cases {
            assert_eq!(fault_of(kind.clone(), answer.clone()).as_deref(), expected, "{kind} answered with {answer}");
        }
    }

    #[test]
    fn the_list_of_faults_is_bounded() {
        let definition = json!({"pages": [{"id": "p", "questions": []}]});
        let questionnaire =
            Questionnaire::new(serde_json::from_value(definition).unwrap()).expect("the definition is valid");
        let given: Map<String, Value> = (0..1_000).map(|number| (format!("q{number}"), Value::Null)).collect();
        let faults = questionnaire.check_page(0, &given).expect_err("none of the questions is on the page");
        assert_eq!((faults.len(), faults[FAULTS_MAX].message.as_str()), (FAULTS_MAX + 1, "and 980 more"));
    }
}
