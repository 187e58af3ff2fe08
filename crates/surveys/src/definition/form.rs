//! A definition in which nothing is wrong, made ready for respondents.

use super::{Condition, Definition, Fault, Page, Question, QuestionKind, Target, check};
use regex::Regex;
use std::collections::HashMap;

/// A definition in which nothing is wrong. Routes and patterns are looked up once, not for each respondent.
#[derive(Debug)]
pub struct Form {
    definition: Definition,
    /// The page of each question.
    pages_of: HashMap<String, usize>,
    patterns: HashMap<String, Regex>,
    routes: Vec<Vec<(Option<Condition>, Next)>>,
}

/// Where a page leads, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Page(usize),
    Complete,
    ScreenOut,
}

impl Form {
    /// The definition as a form, or everything that is wrong with it.
    pub fn new(definition: Definition) -> Result<Self, Vec<Fault>> {
        let faults = check::faults(&definition);
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut pages_of = HashMap::new();
        let mut patterns = HashMap::new();
        for (index, page) in definition.pages.iter().enumerate() {
            for question in &page.questions {
                pages_of.insert(question.id.clone(), index);
                if let QuestionKind::Text { pattern: Some(pattern), .. } = &question.kind
                    && let Ok(regex) = check::whole(pattern)
                {
                    patterns.insert(question.id.clone(), regex);
                }
            }
        }
        let routes = (0..definition.pages.len()).map(|index| routes(&definition, index)).collect();
        Ok(Self { definition, pages_of, patterns, routes })
    }

    /// As it was written.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The page at this place.
    pub fn page(&self, index: usize) -> &Page {
        &self.definition.pages[index]
    }

    /// The place of the page of this id.
    pub fn page_index(&self, id: &str) -> Option<usize> {
        self.definition.page_index(id)
    }

    /// Everything that is wrong with a condition that stands outside of the definition, at `place`.
    pub fn faults_of(&self, place: &str, condition: &Condition) -> Vec<Fault> {
        let mut faults = Vec::new();
        check::condition(&self.definition, place, condition, &mut faults, |_, _| None);
        faults
    }

    pub(super) fn page_of(&self, question: &str) -> Option<usize> {
        self.pages_of.get(question).copied()
    }

    pub(super) fn pattern(&self, question: &Question) -> Option<&Regex> {
        self.patterns.get(&question.id)
    }

    pub(super) fn routes(&self, page: usize) -> &[(Option<Condition>, Next)] {
        &self.routes[page]
    }
}

/// All ways out of a page, with the one that is taken if no other is as the last.
pub(super) fn routes(definition: &Definition, page: usize) -> Vec<(Option<Condition>, Next)> {
    let written = definition.pages[page].routes.iter().filter_map(|route| {
        let next = match &route.then {
            Target::Page(id) => Next::Page(definition.page_index(id)?),
            Target::Complete => Next::Complete,
            Target::ScreenOut => Next::ScreenOut,
        };
        Some((route.when.clone(), next))
    });
    let mut all: Vec<_> = written.collect();
    if let Some(always) = all.iter().position(|(when, _)| when.is_none()) {
        all.truncate(always + 1);
    } else if page + 1 < definition.pages.len() {
        all.push((None, Next::Page(page + 1)));
    } else {
        all.push((None, Next::Complete));
    }
    all
}
