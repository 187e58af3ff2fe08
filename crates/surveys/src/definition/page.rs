//! What was answered on one page.

use super::{Choice, Form, Question, QuestionKind, condition::is_day, types::TEXT_MAX};
use jiff::civil::Date;
use serde_json::{Map, Value};

/// Something that is wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerFault {
    /// Of which question.
    pub question: String,
    /// What must hold.
    pub message: String,
}

/// The answers of a page that may be kept.
pub type PageAnswers = Map<String, Value>;

impl Form {
    /// The answers of a page as they are kept, without those that say nothing; or everything that is wrong with them.
    pub fn read_page(&self, page: usize, given: &Map<String, Value>) -> Result<PageAnswers, Vec<AnswerFault>> {
        let questions = &self.page(page).questions;
        let mut faults: Vec<AnswerFault> = Vec::new();
        for name in given.keys().filter(|name| !questions.iter().any(|question| question.id == **name)) {
            faults.push(AnswerFault { question: name.clone(), message: "is not asked on this page".to_owned() });
        }
        let mut kept = Map::new();
        for question in questions {
            let answer = given.get(&question.id).filter(|answer| !says_nothing(answer));
            let wrong = match answer {
                None if question.required => Some("needs an answer".to_owned()),
                None => None,
                Some(answer) => self.wrong(question, answer),
            };
            match (wrong, answer) {
                (Some(message), _) => faults.push(AnswerFault { question: question.id.clone(), message }),
                (None, Some(answer)) => drop(kept.insert(question.id.clone(), answer.clone())),
                (None, None) => {}
            }
        }
        if faults.is_empty() { Ok(kept) } else { Err(faults) }
    }

    fn wrong(&self, question: &Question, answer: &Value) -> Option<String> {
        match &question.kind {
            QuestionKind::Single { options } => (!is_one_of(answer, options)).then(|| "is none of the choices".into()),
            QuestionKind::Multiple { options, min_choices, max_choices } => {
                choices(answer, options, min_choices.unwrap_or(0), max_choices.unwrap_or(u32::MAX))
            }
            QuestionKind::Number { min, max, integer } => number(answer, *min, *max, *integer),
            QuestionKind::Text { min_length, max_length, .. } => self.text(question, answer, *min_length, *max_length),
            QuestionKind::Date { min, max } => {
                let day: Option<Date> = answer.as_str().filter(|_| is_day(answer)).and_then(|text| text.parse().ok());
                let Some(day) = day else {
                    return Some("is no day; write it as 2026-01-31".into());
                };
                match (min, max) {
                    (Some(min), _) if day < *min => Some(format!("is before {min}")),
                    (_, Some(max)) if day > *max => Some(format!("is after {max}")),
                    _ => None,
                }
            }
            QuestionKind::Scale { min, max } => {
                let on_it = answer.as_i64().is_some_and(|value| (i64::from(*min)..=i64::from(*max)).contains(&value));
                (!on_it).then(|| format!("is no whole number from {min} to {max}"))
            }
            QuestionKind::Matrix { rows, columns } => matrix(question, answer, rows, columns),
        }
    }

    fn text(&self, question: &Question, answer: &Value, min: Option<u32>, max: Option<u32>) -> Option<String> {
        let Some(text) = answer.as_str() else {
            return Some("is no text".into());
        };
        if text.contains('\0') {
            return Some("has a character that cannot be stored".into());
        }
        let length = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let (min, max) = (min.unwrap_or(0), max.unwrap_or(TEXT_MAX));
        if length < min {
            return Some(format!("has {length} characters, and needs {min}"));
        }
        if length > max {
            return Some(format!("has {length} characters, and may have {max}"));
        }
        let fits = self.pattern(question).is_none_or(|pattern| pattern.is_match(text));
        (!fits).then(|| "does not have the form that is asked for".into())
    }
}

/// Empty answers are what forms send for a question that was left out.
fn says_nothing(answer: &Value) -> bool {
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
        return Some("is no list of choices".into());
    };
    if !chosen.iter().all(|choice| is_one_of(choice, options)) {
        return Some("has something that is none of the choices".into());
    }
    if chosen.iter().enumerate().any(|(index, choice)| chosen[..index].contains(choice)) {
        return Some("has a choice twice".into());
    }
    let count = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
    match count {
        _ if count < min => Some(format!("has {count} choices, and needs {min}")),
        _ if count > max => Some(format!("has {count} choices, and may have {max}")),
        _ => None,
    }
}

fn number(answer: &Value, min: Option<f64>, max: Option<f64>, integer: bool) -> Option<String> {
    let Some(number) = answer.as_f64() else {
        return Some("is no number".into());
    };
    match (min, max) {
        (Some(min), _) if number < min => Some(format!("is less than {min}")),
        (_, Some(max)) if number > max => Some(format!("is more than {max}")),
        _ if integer && number.fract() != 0.0 => Some("is no whole number".into()),
        _ => None,
    }
}

fn matrix(question: &Question, answer: &Value, rows: &[Choice], columns: &[Choice]) -> Option<String> {
    let Some(chosen) = answer.as_object() else {
        return Some("is no object of rows".into());
    };
    if let Some(row) = chosen.keys().find(|row| !rows.iter().any(|one| one.id == **row)) {
        return Some(format!("has no row {row:?}"));
    }
    if !chosen.values().all(|column| is_one_of(column, columns)) {
        return Some("has something that is none of the columns".into());
    }
    let missing = rows.iter().find(|row| question.required && !chosen.contains_key(&row.id));
    missing.map(|row| format!("needs an answer in row {:?}", row.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What is wrong with `answer` to a question of this kind.
    fn wrong(kind: Value, answer: Value) -> Option<String> {
        let mut question = json!({"id": "q", "text": "?"});
        question.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        let definition = json!({"pages": [{"id": "p", "questions": [question]}]});
        let form = Form::new(serde_json::from_value(definition).unwrap()).expect("nothing is wrong with it");
        let read = form.read_page(0, json!({ "q": answer }).as_object().unwrap());
        read.err().map(|faults| faults[0].message.clone())
    }

    #[test]
    fn answers_are_held_against_their_question() {
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
            (&single, json!("c"), Some("is none of the choices")),
            (&single, json!(""), Some("needs an answer")),
            (&multiple, json!(["a", "b"]), None),
            (&multiple, json!([]), None),
            (&multiple, json!(["a"]), Some("has 1 choices, and needs 2")),
            (&multiple, json!(["a", "a"]), Some("has a choice twice")),
            (&multiple, json!(["a", "c"]), Some("has something that is none of the choices")),
            (&number, json!(9), None),
            (&number, json!(9.0), None),
            (&number, json!(2.5), Some("is no whole number")),
            (&number, json!(10), Some("is more than 9")),
            (&number, json!("5"), Some("is no number")),
            (&text, json!("äb"), None),
            (&text, json!("a"), Some("has 1 characters, and needs 2")),
            (&text, json!("abcde"), Some("has 5 characters, and may have 4")),
            (&text, json!("ab\n"), Some("does not have the form that is asked for")),
            (&text, json!("a\0b"), Some("has a character that cannot be stored")),
            (&date, json!("2026-02-28"), None),
            (&date, json!("2026-02-30"), Some("is no day; write it as 2026-01-31")),
            (&date, json!("20260228"), Some("is no day; write it as 2026-01-31")),
            (&date, json!("2027-01-01"), Some("is after 2026-12-31")),
            (&scale, json!(-2), None),
            (&scale, json!(3), Some("is no whole number from -2 to 2")),
            (&matrix, json!({"a": "x", "b": "x"}), None),
            (&matrix, json!({"a": "x"}), Some("needs an answer in row \"b\"")),
            (&matrix, json!({"a": "x", "z": "x"}), Some("has no row \"z\"")),
            (&matrix, json!({"a": "y", "b": "x"}), Some("has something that is none of the columns")),
        ];
        for (kind, answer, expected) in cases {
            assert_eq!(wrong(kind.clone(), answer.clone()).as_deref(), expected, "{kind} answered with {answer}");
        }
    }
}
