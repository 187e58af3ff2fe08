//! A form as browsers send it, and the answers in it.

use crate::definition::{Page, Question, QuestionKind};
use form_urlencoded::parse;
use serde_json::{Map, Number, Value};

/// The fields of a form, in their order. A name may come more than once.
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn read(body: &[u8]) -> Self {
        Self(parse(body).map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// What was answered to the questions of `page`, unchecked.
    pub(super) fn answers(&self, page: &Page) -> Map<String, Value> {
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
            // Browsers end lines in their own way.
            QuestionKind::Text { .. } => Some(self.get(&name)?.trim().replace("\r\n", "\n").into()),
            QuestionKind::Single { .. } | QuestionKind::Date { .. } => Some(self.get(&name)?.into()),
        }
    }
}

/// By place, because ids may hold anything.
pub(super) fn name(index: usize) -> String {
    format!("q{index}")
}

pub(super) fn row_name(index: usize, row: usize) -> String {
    format!("q{index}r{row}")
}

/// What is no number stays text, and is then complained of.
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
    fn answers_are_read_by_what_is_asked() {
        let options = json!([{"id": "a&b", "label": "A"}, {"id": "c", "label": "C"}]);
        let page: Page = serde_json::from_value(json!({"id": "p", "questions": [
            {"id": "s", "text": "", "type": "single", "options": options},
            {"id": "m", "text": "", "type": "multiple", "options": options},
            {"id": "n", "text": "", "type": "number"},
            {"id": "t", "text": "", "type": "text"},
            {"id": "x", "text": "", "type": "matrix", "rows": options, "columns": options},
            {"id": "f", "text": "", "type": "number"},
            {"id": "z", "text": "", "type": "scale", "min": 1, "max": 5}]}))
        .unwrap();
        let fields = Fields::read(b"q0=a%26b&q1=c&q1=a%26b&q2=+1.5&q3=x%0D%0Ay&q4r1=c&q5=many");
        let expected = json!({"s": "a&b", "m": ["c", "a&b"], "n": 1.5, "t": "x\ny", "x": {"c": "c"}, "f": "many"});
        assert_eq!(Value::Object(fields.answers(&page)), expected);
    }
}
