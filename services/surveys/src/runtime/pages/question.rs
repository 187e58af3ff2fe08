//! Renders a question as form fields, each with its label and its fault.

use super::fields::{name, row_name};
use crate::definition::{AnswerFault, Choice, Question, QuestionKind};
use maud::{Markup, html};
use serde_json::Value;

/// Longer answers get a multi-line field.
const LINE_MAX: u32 = 120;

/// Returns the fault as a sentence for the respondent.
pub(super) fn fault_sentence(fault: &AnswerFault) -> String {
    let subject = if fault.message.starts_with("needs") { "This question" } else { "Your answer" };
    format!("{subject} {}.", fault.message)
}

/// Returns the id of the field to link to; for a group, its first field.
pub(super) fn first_id(index: usize, question: &Question) -> String {
    match &question.kind {
        QuestionKind::Single { .. } | QuestionKind::Multiple { .. } | QuestionKind::Scale { .. } => {
            choice_id(&name(index), 0)
        }
        QuestionKind::Matrix { .. } => choice_id(&row_name(index, 0), 0),
        _ => name(index),
    }
}

pub(super) fn render(index: usize, question: &Question, answer: Option<&Value>, fault: Option<&str>) -> Markup {
    let name = name(index);
    match &question.kind {
        QuestionKind::Single { options } => {
            let options: Vec<(&str, &str)> = pairs(options);
            let chosen = |id: &str| answer.is_some_and(|answer| answer == id);
            group(question, &name, fault, &choices("radio", &name, &options, chosen))
        }
        QuestionKind::Multiple { options, .. } => {
            let chosen = |id: &str| answer.and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == id));
            group(question, &name, fault, &choices("checkbox", &name, &pairs(options), chosen))
        }
        QuestionKind::Scale { min, max, min_label, max_label } => {
            let steps: Vec<String> = (*min..=*max).map(|step| step.to_string()).collect();
            let options: Vec<(&str, &str)> = steps.iter().map(|step| (step.as_str(), step.as_str())).collect();
            let chosen = |id: &str| answer.and_then(Value::as_i64).is_some_and(|step| id.parse() == Ok(step));
            let scale = html! {
                div.scale { (choices("radio", &name, &options, chosen)) }
                @if min_label.is_some() || max_label.is_some() {
                    p.ends {
                        span { @if let Some(label) = min_label { (min) " = " (label) } }
                        span { @if let Some(label) = max_label { (max) " = " (label) } }
                    }
                }
            };
            group(question, &name, fault, &scale)
        }
        QuestionKind::Matrix { rows, columns } => {
            let rows = html! {
                @for (row, choice) in rows.iter().enumerate() {
                    @let chosen = |id: &str| answer.is_some_and(|answer| answer[&choice.id] == id);
                    fieldset.row {
                        legend { (choice.label) }
                        (choices("radio", &row_name(index, row), &pairs(columns), chosen))
                    }
                }
            };
            group(question, &name, fault, &rows)
        }
        _ => single_field(question, &name, answer, fault),
    }
}

fn single_field(question: &Question, name: &str, answer: Option<&Value>, fault: Option<&str>) -> Markup {
    let text = match answer {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let described = described(name, fault);
    let invalid = fault.map(|_| "true");
    let field = match &question.kind {
        QuestionKind::Date { min, max } => html! {
            input type="date" id=(name) name=(name) value=(text) min=[min] max=[max]
                aria-describedby=[described] aria-invalid=[invalid];
        },
        QuestionKind::Number { integer, .. } => html! {
            input.short type="text" inputmode=(if *integer { "numeric" } else { "decimal" }) id=(name) name=(name)
                value=(text) autocomplete="off" aria-describedby=[described] aria-invalid=[invalid];
        },
        QuestionKind::Text { max_length: Some(max), .. } if *max <= LINE_MAX => html! {
            input type="text" id=(name) name=(name) value=(text) maxlength=(max)
                aria-describedby=[described] aria-invalid=[invalid];
        },
        _ => html! {
            textarea id=(name) name=(name) rows="4" aria-describedby=[described] aria-invalid=[invalid] { (text) }
        },
    };
    html! {
        div.question.wrong[fault.is_some()] {
            label for=(name) { (question.text) (optional(question)) }
            (fault_text(name, fault))
            (field)
        }
    }
}

/// Renders several fields that answer one question.
fn group(question: &Question, name: &str, fault: Option<&str>, fields: &Markup) -> Markup {
    html! {
        fieldset.question.wrong[fault.is_some()] id=(name) aria-describedby=[described(name, fault)] {
            legend { (question.text) (optional(question)) }
            (fault_text(name, fault))
            (fields)
        }
    }
}

fn choices(kind: &str, name: &str, options: &[(&str, &str)], chosen: impl Fn(&str) -> bool) -> Markup {
    html! {
        @for (at, (id, label)) in options.iter().enumerate() {
            div.choice {
                input type=(kind) id=(choice_id(name, at)) name=(name) value=(id) checked[chosen(id)];
                label for=(choice_id(name, at)) { (label) }
            }
        }
    }
}

fn optional(question: &Question) -> Markup {
    html! { @if !question.required { span.note { " (optional)" } } }
}

fn fault_text(name: &str, fault: Option<&str>) -> Markup {
    html! { @if let Some(fault) = fault { p.complaint id={ (name) "-wrong" } { (fault) } } }
}

fn described(name: &str, fault: Option<&str>) -> Option<String> {
    fault.map(|_| format!("{name}-wrong"))
}

fn choice_id(name: &str, at: usize) -> String {
    format!("{name}c{at}")
}

fn pairs(choices: &[Choice]) -> Vec<(&str, &str)> {
    choices.iter().map(|choice| (choice.id.as_str(), choice.label.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::html::{QuestionPage, question_page};
    use crate::definition::{
        AnswerFault, Questionnaire, SurveyDefinition, SurveyPage,
        size::{ANSWERS_BYTES_MAX, answers_bytes, html_bytes},
    };
    use serde_json::{Map, Value, json};
    use std::time::Instant;

    /// The expected time to render the largest page. It is printed, not asserted: the limit on bytes holds on every
    /// machine.
    const RENDER_MS_MAX: u128 = 50;

    /// The largest pages that may be published, one for each way to reach a limit.
    fn largest() -> Vec<(&'static str, Value)> {
        let label = |length: usize| "\"".repeat(length);
        let choices = |count: usize, length: usize| -> Vec<Value> {
            (0..count).map(|at| json!({"id": format!("{at:0>64}"), "label": label(length)})).collect()
        };
        let page = |questions: Vec<Value>| json!({"pages": [{"id": "p", "title": "<", "questions": questions}]});
        let many = |count: usize, question: Value| -> Vec<Value> {
            let one = |number: usize| {
                let mut one = question.clone();
                one["id"] = format!("{number:0>64}").into();
                one
            };
            (0..count).map(one).collect()
        };
        vec![
            (
                "scales",
                page(many(
                    16,
                    json!({"text": label(300), "type": "scale", "min": -2_147_483_648_i64, "max": -2_147_483_548_i64}),
                )),
            ),
            ("choices", page(many(3, json!({"text": "", "type": "multiple", "options": choices(440, 6)})))),
            ("long labels", page(many(1, json!({"text": "", "type": "single", "options": choices(260, 200)})))),
            (
                "a matrix",
                page(many(1, json!({"text": "", "type": "matrix", "rows": choices(405, 3), "columns": choices(3, 3)}))),
            ),
            ("texts", page(many(100, json!({"text": label(490), "type": "text", "required": true})))),
        ]
    }

    /// The largest answers that may be sent, if the page has text questions.
    fn longest_answers(page: &SurveyPage) -> Map<String, Value> {
        let each = ANSWERS_BYTES_MAX / page.questions.len();
        page.questions.iter().map(|one| (one.id.clone(), Value::from("<".repeat(each / "&lt;".len())))).collect()
    }

    fn render_page(page: &SurveyPage, answers: &Map<String, Value>, faults: &[AnswerFault]) -> String {
        let shown = QuestionPage {
            title: "t",
            page,
            attempt: 1,
            session_path: "/s/session/0".into(),
            previous: None,
            number: 1,
            number_max: 1,
        };
        question_page(&shown, answers, faults)
    }

    #[test]
    fn the_largest_page_that_can_be_published_has_less_than_a_megabyte_of_html() {
        for (name, definition) in largest() {
            let definition: SurveyDefinition = serde_json::from_value(definition).unwrap();
            let questionnaire = Questionnaire::new(definition).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
            let page = questionnaire.page(0);
            let html = render_page(page, &Map::new(), &[]);
            assert!(html.len() <= html_bytes(page), "{name}: the estimate is an upper bound");
            assert!(html.len() > 200_000, "{name}: the page is not close to the limit");
            let faults: Vec<AnswerFault> = page
                .questions
                .iter()
                .take(20)
                .map(|one| AnswerFault { question: one.id.clone(), message: "needs an answer".into() })
                .collect();
            let answers = longest_answers(page);
            let (started, html) = (Instant::now(), render_page(page, &answers, &faults));
            let (ms, bytes) = (started.elapsed().as_millis(), html.len());
            println!("{name}: {bytes} bytes, estimated {}, {ms} ms of at most {RENDER_MS_MAX} ms", html_bytes(page));
            assert!(html.len() <= 2 * html_bytes(page) + answers_bytes(page, &answers), "{name}: {bytes} bytes");
            assert!(html.len() < 1_000_000, "{name}: {} bytes", html.len());
            assert!(html.matches("<input").count() + html.matches("<textarea").count() <= 2_502, "{name}");
        }
    }
}
