//! A valid definition, compiled for respondents, and their path through it.

use super::{
    Condition, DefinitionFault, Question, RouteTarget, SurveyDefinition, SurveyPage, check, condition::AnswerState,
    faults::FaultCollector, pattern::Patterns, routing,
};
use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};

/// A valid definition. Routes and patterns are resolved once, not for each respondent.
#[derive(Debug)]
pub struct Questionnaire {
    definition: SurveyDefinition,
    /// The page index of each question.
    page_by_question: HashMap<String, usize>,
    patterns: Patterns,
    bytes: usize,
    routes: Vec<Vec<(Option<Condition>, ResolvedTarget)>>,
}

/// The target of a route, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResolvedTarget {
    Page(usize),
    Complete,
    ScreenOut,
}

/// Submitted answers by page id, including pages that are no longer on the path.
pub type AnswersByPage = BTreeMap<String, Map<String, Value>>;

/// A respondent's path through a questionnaire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyPath {
    /// The submitted pages that count, in the order of the path.
    pub pages: Vec<usize>,
    /// Where the path stops.
    pub end: PathEnd,
}

/// The point at which a path stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathEnd {
    /// This page is to be submitted next.
    AtPage(usize),
    /// Everything is answered.
    Finished,
    /// The last submitted page screened the respondent out.
    ScreenedOut,
}

impl Questionnaire {
    /// Compiles a definition, or returns its faults. Compiling patterns takes time: async code calls
    /// `crate::compile::compile` instead.
    pub fn new(definition: SurveyDefinition) -> Result<Self, Vec<DefinitionFault>> {
        let patterns = check::check(&definition)?;
        let mut page_by_question = HashMap::new();
        for (index, page) in definition.pages.iter().enumerate() {
            page_by_question.extend(page.questions.iter().map(|question| (question.id.clone(), index)));
        }
        let routes = (0..definition.pages.len()).map(|index| routes(&definition, index)).collect();
        let bytes = memory_bytes(&definition).saturating_add(patterns.bytes());
        Ok(Self { definition, page_by_question, patterns, bytes, routes })
    }

    /// Estimates the memory that the questionnaire uses, in bytes, rounded up.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the definition as it was written.
    pub fn definition(&self) -> &SurveyDefinition {
        &self.definition
    }

    /// Returns the page at this index.
    pub fn page(&self, index: usize) -> &SurveyPage {
        &self.definition.pages[index]
    }

    /// Returns the index of the page with this id.
    pub fn page_index(&self, id: &str) -> Option<usize> {
        self.definition.page_index(id)
    }

    /// Returns the faults of conditions outside the definition, each with its location.
    pub fn condition_faults<'c>(
        &self,
        conditions: impl IntoIterator<Item = (String, &'c Condition)>,
    ) -> Vec<DefinitionFault> {
        let (mut faults, questions) = (FaultCollector::default(), routing::questions(&self.definition));
        for (pointer, condition) in conditions {
            routing::check_condition(&questions, &pointer, condition, &mut faults, |_, _| None);
        }
        faults.into_vec()
    }

    pub(super) fn page_of(&self, question: &str) -> Option<usize> {
        self.page_by_question.get(question).copied()
    }

    pub(super) fn pattern(&self, question: &Question) -> Option<&Regex> {
        self.patterns.by_question.get(&question.id)
    }

    pub(super) fn routes(&self, page: usize) -> &[(Option<Condition>, ResolvedTarget)] {
        &self.routes[page]
    }

    /// Follows the routes from the first page as far as `answers` lead. Answers on pages off this path do not count.
    pub fn path(&self, answers: &AnswersByPage) -> SurveyPath {
        let mut pages = Vec::new();
        let mut page = 0;
        // Routes lead forward only, so no page is visited twice.
        while answers.contains_key(&self.page(page).id) {
            pages.push(page);
            let state = |question: &str| self.answer_state(&pages, answers, question, AnswerState::Unanswered);
            let taken = self.routes(page).iter().find(|(when, _)| route_applies(when.as_ref(), &state));
            match taken.map(|(_, target)| *target) {
                Some(ResolvedTarget::Page(next)) => page = next,
                Some(ResolvedTarget::ScreenOut) => return SurveyPath { pages, end: PathEnd::ScreenedOut },
                Some(ResolvedTarget::Complete) | None => return SurveyPath { pages, end: PathEnd::Finished },
            }
        }
        SurveyPath { pages, end: PathEnd::AtPage(page) }
    }

    /// Returns whether `condition` holds on this path, or `None` while that depends on pages that may still follow.
    pub fn holds(&self, condition: &Condition, path: &SurveyPath, answers: &AnswersByPage) -> Option<bool> {
        let unasked = match path.end {
            PathEnd::AtPage(_) => AnswerState::NotAsked,
            PathEnd::Finished | PathEnd::ScreenedOut => AnswerState::Unanswered,
        };
        condition.decide(&|question: &str| self.answer_state(&path.pages, answers, question, unasked))
    }

    /// Returns the maximum number of pages that may still follow, including the one at which the path stops.
    pub fn pages_left(&self, path: &SurveyPath) -> usize {
        let PathEnd::AtPage(page) = path.end else {
            return 0;
        };
        self.longest_path(page, &mut vec![None; self.definition().pages.len()])
    }

    /// Returns the length of the longest path starting at `page`; `known` caches earlier results.
    fn longest_path(&self, page: usize, known: &mut Vec<Option<usize>>) -> usize {
        if let Some(length) = known[page] {
            return length;
        }
        let targets: Vec<ResolvedTarget> = self.routes(page).iter().map(|(_, target)| *target).collect();
        let rest = targets.into_iter().map(|target| match target {
            ResolvedTarget::Page(next) => self.longest_path(next, known),
            ResolvedTarget::Complete | ResolvedTarget::ScreenOut => 0,
        });
        let length = 1 + rest.max().unwrap_or(0);
        known[page] = Some(length);
        length
    }

    /// Returns what is known about a question's answer; `unasked` if its page is not among `pages`.
    fn answer_state<'a>(
        &self,
        pages: &[usize],
        answers: &'a AnswersByPage,
        question: &str,
        unasked: AnswerState<'a>,
    ) -> AnswerState<'a> {
        let Some(page) = self.page_of(question) else {
            return AnswerState::Unanswered;
        };
        if !pages.contains(&page) {
            return unasked;
        }
        let answer = answers.get(&self.page(page).id).and_then(|answers| answers.get(question));
        answer.map_or(AnswerState::Unanswered, AnswerState::Answered)
    }
}

/// Estimates the memory that a part of a definition and everything derived from it use, in bytes: its JSON text, plus
/// the structure that holds each value in it.
pub(crate) fn memory_bytes(part: &impl Serialize) -> usize {
    const VALUE_BYTES: usize = 64;
    // A part that cannot be serialized must not be cached.
    serde_json::to_vec(part).map_or(usize::MAX, |text| {
        let values = text.iter().filter(|byte| matches!(byte, b'{' | b'[' | b',')).count();
        text.len() + values * VALUE_BYTES
    })
}

/// Returns all routes out of a page. The last is the default, taken if no other matches.
pub(super) fn routes(definition: &SurveyDefinition, page: usize) -> Vec<(Option<Condition>, ResolvedTarget)> {
    let declared = definition.pages[page].routes.iter().filter_map(|route| {
        let next = match &route.then {
            RouteTarget::Page(id) => ResolvedTarget::Page(definition.page_index(id)?),
            RouteTarget::Complete => ResolvedTarget::Complete,
            RouteTarget::ScreenOut => ResolvedTarget::ScreenOut,
        };
        Some((route.when.clone(), next))
    });
    let mut all: Vec<_> = declared.collect();
    if let Some(always) = all.iter().position(|(when, _)| when.is_none()) {
        all.truncate(always + 1);
    } else if page + 1 < definition.pages.len() {
        all.push((None, ResolvedTarget::Page(page + 1)));
    } else {
        all.push((None, ResolvedTarget::Complete));
    }
    all
}

fn route_applies<'a>(when: Option<&Condition>, state: &impl Fn(&str) -> AnswerState<'a>) -> bool {
    when.is_none_or(|when| when.decide(state) == Some(true))
}
