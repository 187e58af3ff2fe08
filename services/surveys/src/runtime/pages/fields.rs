//! Parses a submitted form and its answers.

use crate::definition::{Question, QuestionKind, SurveyPage, size::INPUTS_MAX};
use serde_json::{Map, Number, Value};

/// The maximum number of form fields that are read. No page has more: its inputs, its id and the attempt.
const FIELDS_MAX: usize = INPUTS_MAX + 2;

/// The fields of a form, in order. A name may occur more than once.
pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    pub(super) fn parse(body: &[u8]) -> Self {
        // Each question searches all fields, so a form with half a million fields would take seconds.
        let fields = form_urlencoded::parse(body).take(FIELDS_MAX);
        Self(fields.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the answers to the questions of `page`, unchecked.
    pub(super) fn answers(&self, page: &SurveyPage) -> Map<String, Value> {
        let answers = page.questions.iter().enumerate();
        answers.filter_map(|(index, question)| Some((question.id.clone(), self.answer(index, question)?))).collect()
    }

    fn answer(&self, index: usize, question: &Question) -> Option<Value> {
        let name = name(index);
        match &question.kind {
            QuestionKind::Multiple { .. } => Some(self.all(&name).map(Value::from).collect()),
            QuestionKind::Number { .. } | QuestionKind::Scale { .. } => Some(number(self.get(&name)?.trim())),
            QuestionKind::Matrix { rows, .. } => {
                let chosen = rows.iter().enumerate().filter_map(|(row, choice)| {
                    Some((choice.id.clone(), Value::from(self.get(&row_name(index, row))?)))
                });
                Some(Value::Object(chosen.collect()))
            }
            // Browsers send line breaks as CRLF.
            QuestionKind::Text { .. } => Some(self.get(&name)?.trim().replace("\r\n", "\n").into()),
            QuestionKind::Single { .. } | QuestionKind::Date { .. } => Some(self.get(&name)?.into()),
        }
    }
}

/// Returns a field's name. It is based on the index, because ids may contain any character.
pub(super) fn name(index: usize) -> String {
    format!("q{index}")
}

pub(super) fn row_name(index: usize, row: usize) -> String {
    format!("q{index}r{row}")
}

/// Parses a number. Any other text is kept as text, which the check then rejects.
fn number(text: &str) -> Value {
    let whole = text.parse::<i64>().ok().map(Value::from);
    let number = || text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number);
    whole.or_else(number).unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_parsed_by_the_type_of_their_question() {
        let options = json!([{"id": "a&b", "label": "A"}, {"id": "c", "label": "C"}]);
        let page: SurveyPage = serde_json::from_value(json!({"id": "p", "questions": [
            {"id": "s", "text": "", "type": "single", "options": options},
            {"id": "m", "text": "", "type": "multiple", "options": options},
            {"id": "n", "text": "", "type": "number"},
            {"id": "t", "text": "", "type": "text"},
            {"id": "x", "text": "", "type": "matrix", "rows": options, "columns": options},
            {"id": "f", "text": "", "type": "number"},
            {"id": "z", "text": "", "type": "scale", "min": 1, "max": 5}]}))
        .unwrap();
        let fields = FormFields::parse(b"q0=a%26b&q1=c&q1=a%26b&q2=+1.5&q3=x%0D%0Ay&q4r1=c&q5=many");
        let expected = json!({"s": "a&b", "m": ["c", "a&b"], "n": 1.5, "t": "x\ny", "x": {"c": "c"}, "f": "many"});
        assert_eq!(Value::Object(fields.answers(&page)), expected);
    }
}
