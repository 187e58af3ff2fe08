//! A question as fields of a form, each with its label, and with what is wrong beside it.

use super::fields::{name, row_name};
use crate::definition::{AnswerFault, Choice, Question, QuestionKind};
use maud::{Markup, html};
use serde_json::Value;

/// Longer answers get more than a line.
const LINE_MAX: u32 = 120;

/// What is wrong, as a sentence to the respondent.
pub(super) fn complaint(fault: &AnswerFault) -> String {
    let subject = if fault.message.starts_with("needs") { "This question" } else { "Your answer" };
    format!("{subject} {}.", fault.message)
}

/// The id of the field to go to: of a group, its first.
pub(super) fn first_id(index: usize, question: &Question) -> String {
    match &question.kind {
        QuestionKind::Single { .. } | QuestionKind::Multiple { .. } | QuestionKind::Scale { .. } => {
            choice_id(&name(index), 0)
        }
        QuestionKind::Matrix { .. } => choice_id(&row_name(index, 0), 0),
        _ => name(index),
    }
}

pub(super) fn question(index: usize, question: &Question, answer: Option<&Value>, wrong: Option<&str>) -> Markup {
    let name = name(index);
    match &question.kind {
        QuestionKind::Single { options } => {
            let options: Vec<(&str, &str)> = pairs(options);
            let chosen = |id: &str| answer.is_some_and(|answer| answer == id);
            group(question, &name, wrong, &choices("radio", &name, &options, chosen))
        }
        QuestionKind::Multiple { options, .. } => {
            let chosen = |id: &str| answer.and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == id));
            group(question, &name, wrong, &choices("checkbox", &name, &pairs(options), chosen))
        }
        QuestionKind::Scale { min, max } => {
            let steps: Vec<String> = (*min..=*max).map(|step| step.to_string()).collect();
            let options: Vec<(&str, &str)> = steps.iter().map(|step| (step.as_str(), step.as_str())).collect();
            let chosen = |id: &str| answer.and_then(Value::as_i64).is_some_and(|step| id.parse() == Ok(step));
            group(question, &name, wrong, &html! { div.scale { (choices("radio", &name, &options, chosen)) } })
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
            group(question, &name, wrong, &rows)
        }
        _ => single_field(question, &name, answer, wrong),
    }
}

fn single_field(question: &Question, name: &str, answer: Option<&Value>, wrong: Option<&str>) -> Markup {
    let text = match answer {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let described = described(name, wrong);
    let invalid = wrong.map(|_| "true");
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
        div.question.wrong[wrong.is_some()] {
            label for=(name) { (question.text) (optional(question)) }
            (complaint_of(name, wrong))
            (field)
        }
    }
}

/// Several fields that answer one question.
fn group(question: &Question, name: &str, wrong: Option<&str>, fields: &Markup) -> Markup {
    html! {
        fieldset.question.wrong[wrong.is_some()] id=(name) aria-describedby=[described(name, wrong)] {
            legend { (question.text) (optional(question)) }
            (complaint_of(name, wrong))
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

fn complaint_of(name: &str, wrong: Option<&str>) -> Markup {
    html! { @if let Some(wrong) = wrong { p.complaint id={ (name) "-wrong" } { (wrong) } } }
}

fn described(name: &str, wrong: Option<&str>) -> Option<String> {
    wrong.map(|_| format!("{name}-wrong"))
}

fn choice_id(name: &str, at: usize) -> String {
    format!("{name}c{at}")
}

fn pairs(choices: &[Choice]) -> Vec<(&str, &str)> {
    choices.iter().map(|choice| (choice.id.as_str(), choice.label.as_str())).collect()
}
