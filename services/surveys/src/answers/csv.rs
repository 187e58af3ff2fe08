//! Answers as CSV (RFC 4180): a column for each question, and for each row of a matrix. No I/O.

use super::store::SessionAnswers;
use crate::definition::{QuestionKind, SurveyDefinition};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The maximum number of question columns. Spreadsheets open no more.
pub(super) const COLUMNS_MAX: usize = 16_000;
const FIXED: [&str; 9] =
    ["session_id", "collector_id", "version", "status", "reason", "ref", "started_at", "ended_at", "erased_at"];

/// A question, or one row of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct AnswerColumn {
    question: String,
    row: Option<String>,
}

/// The export would have more than [`COLUMNS_MAX`] columns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooManyColumns;

/// The columns of several definitions: those of the first in its order, then those that only the others have.
#[derive(Default)]
pub(super) struct AnswerColumns {
    columns: Vec<AnswerColumn>,
    seen: HashSet<AnswerColumn>,
}

impl AnswerColumns {
    pub(super) fn add(&mut self, definition: &SurveyDefinition) -> Result<(), TooManyColumns> {
        for question in definition.pages.iter().flat_map(|page| &page.questions) {
            match &question.kind {
                QuestionKind::Matrix { rows, .. } => {
                    rows.iter().try_for_each(|row| self.add_one(&question.id, Some(&row.id)))?;
                }
                _ => self.add_one(&question.id, None)?,
            }
        }
        Ok(())
    }

    fn add_one(&mut self, question: &str, row: Option<&str>) -> Result<(), TooManyColumns> {
        let column = AnswerColumn { question: question.to_owned(), row: row.map(str::to_owned) };
        if self.seen.contains(&column) {
            return Ok(());
        }
        if self.columns.len() >= COLUMNS_MAX {
            return Err(TooManyColumns);
        }
        self.seen.insert(column.clone());
        self.columns.push(column);
        Ok(())
    }

    pub(super) fn into_vec(self) -> Vec<AnswerColumn> {
        self.columns
    }
}

/// Returns the header line.
pub(super) fn header(columns: &[AnswerColumn]) -> String {
    let names = columns.iter().map(|column| match &column.row {
        Some(row) => format!("{}.{row}", column.question),
        None => column.question.clone(),
    });
    line(FIXED.into_iter().map(str::to_owned).chain(names))
}

/// Returns the line of one session.
pub(super) fn record(session: &SessionAnswers, answers: &Map<String, Value>, columns: &[AnswerColumn]) -> String {
    let time = |at: Option<jiff::Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    let fixed = [
        session.session_id.to_string(),
        session.collector_id.to_string(),
        session.version.to_string(),
        session.status.clone(),
        session.reason.clone().unwrap_or_default(),
        escape_formula(session.external_ref.as_deref().unwrap_or_default()),
        time(Some(session.started_at)),
        time(session.ended_at),
        time(session.erased_at),
    ];
    let cells = columns.iter().map(|column| {
        let answer = answers.get(&column.question);
        cell(match &column.row {
            Some(row) => answer.and_then(|answer| answer.get(row)),
            None => answer,
        })
    });
    line(fixed.into_iter().chain(cells))
}

fn cell(answer: Option<&Value>) -> String {
    match answer {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => escape_formula(text),
        Some(Value::Array(chosen)) => {
            let chosen: Vec<&str> = chosen.iter().filter_map(Value::as_str).collect();
            escape_formula(&chosen.join(";"))
        }
        Some(other) => other.to_string(),
    }
}

/// Prefixes a respondent's text with an apostrophe if a spreadsheet would run it as a formula.
fn escape_formula(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(quote).collect();
    format!("{}\r\n", cells.join(","))
}

fn quote(cell: String) -> String {
    match cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(questions: Value) -> SurveyDefinition {
        serde_json::from_value(json!({"pages": [{"id": "p", "questions": questions}]})).unwrap()
    }

    #[test]
    fn columns_start_with_the_latest_version_and_matrices_have_one_per_row() {
        let rows = json!([{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]);
        let matrix = json!({"id": "m", "text": "", "type": "matrix", "rows": rows, "columns": rows});
        let text = |id: &str| json!({"id": id, "text": "", "type": "text"});
        let latest = definition(json!([text("new"), matrix]));
        let before = definition(json!([text("old"), text("new")]));
        let mut columns = AnswerColumns::default();
        assert_eq!([latest, before].map(|one| columns.add(&one)), [Ok(()), Ok(())]);
        let header = header(&columns.into_vec());
        assert!(header.ends_with("erased_at,new,m.a,m.b,old\r\n"), "{header}");
    }

    #[test]
    fn cells_are_quoted_and_formulas_are_escaped() {
        let cases = [
            (json!("a,\"b\"\nc"), "\"a,\"\"b\"\"\nc\""),
            (json!("=cmd|'/c calc'!A1"), "'=cmd|'/c calc'!A1"),
            (json!("-1+2"), "'-1+2"),
            (json!(-1), "-1"),
            (json!(["x", "y"]), "x;y"),
            (Value::Null, ""),
        ];
        for (answer, expected) in cases {
            assert_eq!(quote(cell(Some(&answer))), expected);
        }
    }
}
