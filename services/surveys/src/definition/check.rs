//! Checks a whole definition and reports every fault with its location, such as `/pages/2/questions/0/pattern`.

use super::{
    Choice, Question, QuestionKind, SurveyDefinition,
    faults::{DefinitionFault, FaultCollector, quote},
    pattern::{self, PATTERN_TEXT_MAX, Patterns},
    routing, size,
    types::{CHOICES_MAX, PAGES_MAX, QUESTIONS_ALL_MAX, QUESTIONS_MAX, ROUTES_MAX, TEXT_MAX},
};
use std::collections::HashSet;

const ID_MAX: usize = 64;

/// Returns the compiled patterns of a valid definition, or all faults of an invalid one.
pub(super) fn check(definition: &SurveyDefinition) -> Result<Patterns, Vec<DefinitionFault>> {
    let mut faults = FaultCollector::default();
    counts(definition, &mut faults);
    if !faults.is_empty() {
        // A definition that is too large is not checked further.
        return Err(faults.into_vec());
    }
    let pages = &definition.pages;
    ids(&mut faults, pages.iter().enumerate().map(|(index, page)| (format!("/pages/{index}/id"), page.id.as_str())));
    let all = pages.iter().enumerate().flat_map(|(index, page)| {
        let pointer = move |number| format!("/pages/{index}/questions/{number}");
        page.questions.iter().enumerate().map(move |(number, question)| (pointer(number), question))
    });
    ids(&mut faults, all.clone().map(|(pointer, question)| (format!("{pointer}/id"), question.id.as_str())));
    all.for_each(|(pointer, question)| self::question(&mut faults, &pointer, question));
    for (index, page) in pages.iter().enumerate() {
        size::check(&format!("/pages/{index}"), page, &mut faults);
    }
    routing::check(definition, &mut faults);
    let patterns = pattern::compile(definition, &mut faults);
    if faults.is_empty() { Ok(patterns) } else { Err(faults.into_vec()) }
}

fn counts(definition: &SurveyDefinition, faults: &mut FaultCollector) {
    let pages = &definition.pages;
    if pages.is_empty() {
        faults.add("/pages", "is empty; a survey has at least one page");
    }
    faults.check_max("/pages", pages.len(), PAGES_MAX);
    for (index, page) in pages.iter().enumerate() {
        faults.check_max(&format!("/pages/{index}/questions"), page.questions.len(), QUESTIONS_MAX);
        faults.check_max(&format!("/pages/{index}/routes"), page.routes.len(), ROUTES_MAX);
    }
    let questions: usize = pages.iter().map(|page| page.questions.len()).sum();
    if questions > QUESTIONS_ALL_MAX {
        faults.add(
            "/pages",
            format!("the definition has {questions} questions; at most {QUESTIONS_ALL_MAX} are allowed"),
        );
    }
}

fn ids<'a>(faults: &mut FaultCollector, ids: impl Iterator<Item = (String, &'a str)>) {
    let mut seen = HashSet::new();
    for (pointer, id) in ids {
        if id.is_empty()
            || id.len() > ID_MAX
            || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        {
            faults.add(
                &pointer,
                format!("{} is not a valid id; use 1 to {ID_MAX} letters, digits, '_' or '-'", quote(id)),
            );
        } else if !seen.insert(id) {
            faults.add(&pointer, format!("{} occurs twice", quote(id)));
        }
    }
}

fn question(faults: &mut FaultCollector, pointer: &str, question: &Question) {
    match &question.kind {
        QuestionKind::Single { options } => choices(faults, &format!("{pointer}/options"), options),
        QuestionKind::Multiple { options, min_choices, max_choices } => {
            choices(faults, &format!("{pointer}/options"), options);
            let (min, max) = (min_choices.unwrap_or(0), max_choices.unwrap_or(u32::MAX));
            if min > max || max == 0 {
                faults.add(&format!("{pointer}/max_choices"), "must be at least min_choices and at least 1");
            }
            if min as usize > options.len() {
                faults
                    .add(&format!("{pointer}/min_choices"), format!("the question has only {} choices", options.len()));
            }
        }
        QuestionKind::Number { min, max, .. } if min.zip(*max).is_some_and(|(min, max)| min > max) => {
            faults.add(&format!("{pointer}/max"), "is less than min");
        }
        QuestionKind::Date { min, max } if min.zip(*max).is_some_and(|(min, max)| min > max) => {
            faults.add(&format!("{pointer}/max"), "is before min");
        }
        QuestionKind::Scale { min, max, .. } if min >= max => {
            faults.add(&format!("{pointer}/max"), "must be greater than min");
        }
        QuestionKind::Text { min_length, max_length, pattern } => {
            let limit = if pattern.is_some() { PATTERN_TEXT_MAX } else { TEXT_MAX };
            let max = max_length.unwrap_or(limit);
            if max > limit || max == 0 || min_length.unwrap_or(0) > max {
                let why = if pattern.is_some() { " (the question has a pattern)" } else { "" };
                let message = format!("must be at least min_length, at least 1, and at most {limit}{why}");
                faults.add(&format!("{pointer}/max_length"), message);
            }
        }
        QuestionKind::Matrix { rows, columns } => {
            choices(faults, &format!("{pointer}/rows"), rows);
            choices(faults, &format!("{pointer}/columns"), columns);
        }
        _ => {}
    }
}

fn choices(faults: &mut FaultCollector, pointer: &str, choices: &[Choice]) {
    if choices.is_empty() {
        faults.add(pointer, "must not be empty");
    }
    faults.check_max(pointer, choices.len(), CHOICES_MAX);
    ids(
        faults,
        choices.iter().enumerate().map(|(index, choice)| (format!("{pointer}/{index}/id"), choice.id.as_str())),
    );
}
