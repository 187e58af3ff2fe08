//! Checks routes and conditions: their targets, and the questions they depend on.

use super::{
    Condition, Question, RouteTarget, SurveyDefinition,
    condition::DEPTH_MAX,
    faults::{FaultCollector, quote},
    questionnaire::{ResolvedTarget, routes},
    types::{CHOICES_MAX, PAGES_MAX},
};
use std::collections::HashMap;

/// The maximum number of leaves in one condition.
pub const LEAVES_MAX: usize = 200;

/// Each question with the index of its page, by question id.
pub(super) type Questions<'d> = HashMap<&'d str, (usize, &'d Question)>;

pub(super) fn questions(definition: &SurveyDefinition) -> Questions<'_> {
    let pages = definition.pages.iter().enumerate();
    pages.flat_map(|(index, page)| page.questions.iter().map(move |one| (one.id.as_str(), (index, one)))).collect()
}

pub(super) fn check(definition: &SurveyDefinition, faults: &mut FaultCollector) {
    targets(definition, faults);
    let pages = &definition.pages;
    if pages.is_empty() || pages.len() > PAGES_MAX {
        return;
    }
    let nexts: Vec<Vec<usize>> = (0..pages.len()).map(|page| next_pages(definition, page)).collect();
    // Computed once for every page, because all checks below need it.
    let reach: Vec<Vec<bool>> = (0..pages.len()).map(|page| reach(&nexts, page)).collect();
    for (index, page) in pages.iter().enumerate().filter(|(index, _)| !reach[0][*index]) {
        faults.add(&format!("/pages/{index}"), format!("page {} cannot be reached", quote(&page.id)));
    }
    for (index, next) in nexts.iter().enumerate().filter(|(index, _)| reach[0][*index]) {
        if let Some(back) = next.iter().find(|next| reach[**next][index]) {
            let to = quote(&pages[*back].id);
            faults.add(
                &format!("/pages/{index}/routes"),
                format!("lead to page {to}, which leads back to this page: the routes form a loop"),
            );
        }
    }
    let questions = questions(definition);
    for (index, page) in pages.iter().enumerate() {
        for (number, route) in page.routes.iter().enumerate() {
            let Some(when) = &route.when else { continue };
            let pointer = format!("/pages/{index}/routes/{number}/when");
            check_condition(&questions, &pointer, when, faults, |page_of_question, question| {
                let before = page_of_question == index || reach[page_of_question][index];
                (!before).then(|| format!("question {} is not asked on this page or before it", quote(question)))
            });
        }
    }
}

fn targets(definition: &SurveyDefinition, faults: &mut FaultCollector) {
    for (index, page) in definition.pages.iter().enumerate() {
        let always = page.routes.iter().position(|route| route.when.is_none());
        for (number, route) in page.routes.iter().enumerate() {
            let pointer = format!("/pages/{index}/routes/{number}");
            if let RouteTarget::Page(id) = &route.then
                && definition.page_index(id).is_none()
            {
                faults.add(&format!("{pointer}/then"), format!("page {} does not exist", quote(id)));
            }
            if always.is_some_and(|always| always < number) {
                faults.add(&pointer, "is never taken, because a route before it has no condition");
            }
        }
    }
}

/// Adds the faults of one condition. `too_late` returns why a question of that page cannot be used here, or `None`.
pub(super) fn check_condition(
    questions: &Questions<'_>,
    pointer: &str,
    condition: &Condition,
    faults: &mut FaultCollector,
    too_late: impl Fn(usize, &str) -> Option<String>,
) {
    if condition.depth() > DEPTH_MAX {
        return faults.add(pointer, format!("is nested deeper than {DEPTH_MAX} levels"));
    }
    let mut leaves = 0;
    condition.leaves(pointer, &mut |pointer, leaf| {
        leaves += 1;
        let Some(reference) = leaf.question() else {
            return;
        };
        if let Condition::OneOf { values, .. } = leaf
            && values.len() > CHOICES_MAX
        {
            return faults.check_max(&format!("{pointer}/values"), values.len(), CHOICES_MAX);
        }
        match questions.get(reference.question_id.as_str()) {
            None => faults.add(&pointer, format!("question {} does not exist", quote(&reference.question_id))),
            Some((index, question)) => {
                if let Some(message) = leaf.mismatch(question).or_else(|| too_late(*index, &question.id)) {
                    faults.add(&pointer, message);
                }
            }
        }
    });
    faults.check_max(pointer, leaves, LEAVES_MAX);
}

fn next_pages(definition: &SurveyDefinition, page: usize) -> Vec<usize> {
    let pages = routes(definition, page).into_iter().filter_map(|(_, next)| match next {
        ResolvedTarget::Page(next) => Some(next),
        ResolvedTarget::Complete | ResolvedTarget::ScreenOut => None,
    });
    pages.collect()
}

/// Returns which pages can be reached from `from`, including `from` itself.
fn reach(nexts: &[Vec<usize>], from: usize) -> Vec<bool> {
    let mut reached = vec![false; nexts.len()];
    let mut pending = vec![from];
    while let Some(page) = pending.pop() {
        if !std::mem::replace(&mut reached[page], true) {
            pending.extend(&nexts[page]);
        }
    }
    reached
}
