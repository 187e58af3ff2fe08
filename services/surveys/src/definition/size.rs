//! The size of a rendered page, and the maximum size of its answers.
//!
//! Rendering time is proportional to the page's HTML, so the limits on bytes also bound the time.

use super::{Choice, Question, QuestionKind, SurveyPage, faults::FaultCollector};
use serde_json::{Map, Value};

/// The maximum number of steps of a scale.
pub const SCALE_STEPS_MAX: i64 = 101;
/// The maximum number of cells (rows × columns) of a page's matrices.
pub const CELLS_MAX: usize = 2_000;
/// The maximum number of input fields per page.
pub const INPUTS_MAX: usize = 2_500;
/// The maximum size of a page's questions in bytes of HTML, as estimated by [`html_bytes`]. Error messages repeat texts
/// of questions, so a rendered page has at most twice this size plus the answers.
pub const PAGE_BYTES_MAX: usize = 380_000;
/// The maximum total size of the answers that a page shows as text, in bytes of HTML.
pub const ANSWERS_BYTES_MAX: usize = 200_000;

/// The HTML around the questions.
const FRAME_BYTES: usize = 3_000;
const QUESTION_BYTES: usize = 600;
const INPUT_BYTES: usize = 180;
const ROW_BYTES: usize = 120;

/// Adds a fault for each limit that the page at `pointer` exceeds.
pub(super) fn check(pointer: &str, page: &SurveyPage, faults: &mut FaultCollector) {
    for (number, question) in page.questions.iter().enumerate() {
        if let QuestionKind::Scale { min, max, .. } = &question.kind
            && steps(*min, *max) > SCALE_STEPS_MAX
        {
            let message = format!("the scale has {} steps; at most {SCALE_STEPS_MAX} are allowed", steps(*min, *max));
            faults.add(&format!("{pointer}/questions/{number}/max"), message);
        }
    }
    let sum = |count: fn(&Question) -> usize| page.questions.iter().map(count).fold(0, usize::saturating_add);
    let (cells, inputs, bytes) = (sum(cells), sum(inputs), html_bytes(page));
    let questions = format!("{pointer}/questions");
    if cells > CELLS_MAX {
        faults
            .add(&questions, format!("the matrices of this page have {cells} cells; at most {CELLS_MAX} are allowed"));
    } else if inputs > INPUTS_MAX {
        faults.add(
            &questions,
            format!(
                "this page has {inputs} input fields; at most {INPUTS_MAX} are allowed. Distribute them over more pages"
            ),
        );
    } else if bytes > PAGE_BYTES_MAX {
        let message = format!(
            "this page has {bytes} bytes of HTML; at most {PAGE_BYTES_MAX} are allowed. Shorten texts or add pages"
        );
        faults.add(&questions, message);
    }
}

fn steps(min: i32, max: i32) -> i64 {
    (i64::from(max) - i64::from(min)).saturating_add(1).max(0)
}

fn cells(question: &Question) -> usize {
    match &question.kind {
        QuestionKind::Matrix { rows, columns } => rows.len().saturating_mul(columns.len()),
        _ => 0,
    }
}

fn inputs(question: &Question) -> usize {
    match &question.kind {
        QuestionKind::Single { options } | QuestionKind::Multiple { options, .. } => options.len(),
        QuestionKind::Scale { min, max, .. } => usize::try_from(steps(*min, *max)).unwrap_or(usize::MAX),
        QuestionKind::Matrix { .. } => cells(question),
        _ => 1,
    }
}

/// Returns an upper bound on the bytes of HTML of the rendered page, without answers and error messages.
pub fn html_bytes(page: &SurveyPage) -> usize {
    let title = page.title.as_deref().map_or(0, |title| 2 * html_length(title));
    page.questions.iter().map(question_bytes).fold(FRAME_BYTES + title, usize::saturating_add)
}

/// Returns the bytes of HTML of the answers that the page shows as text. Choices are part of the page, selected or not.
pub fn answers_bytes(page: &SurveyPage, answers: &Map<String, Value>) -> usize {
    let shown = page.questions.iter().filter(|question| {
        let kind = &question.kind;
        matches!(kind, QuestionKind::Text { .. } | QuestionKind::Number { .. } | QuestionKind::Date { .. })
    });
    shown.filter_map(|question| answers.get(&question.id)?.as_str()).map(html_length).sum()
}

fn question_bytes(question: &Question) -> usize {
    let question_text = QUESTION_BYTES + html_length(&question.text);
    let choices = |choices: &[Choice]| -> usize {
        choices.iter().map(|choice| INPUT_BYTES + choice.id.len() + html_length(&choice.label)).sum()
    };
    let fields = match &question.kind {
        QuestionKind::Single { options } | QuestionKind::Multiple { options, .. } => choices(options),
        QuestionKind::Scale { min_label, max_label, .. } => {
            let labels: usize = [min_label, max_label].into_iter().flatten().map(|label| html_length(label)).sum();
            inputs(question).saturating_mul(INPUT_BYTES + 22).saturating_add(labels)
        }
        QuestionKind::Matrix { rows, columns } => {
            let labels: usize = rows.iter().map(|row| ROW_BYTES + html_length(&row.label)).sum();
            rows.len().saturating_mul(choices(columns)).saturating_add(labels)
        }
        _ => INPUT_BYTES,
    };
    question_text.saturating_add(fields)
}

/// Returns the length of a text once escaped as HTML.
fn html_length(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' => 6,
        b'&' => 5,
        b'<' | b'>' => 4,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}
