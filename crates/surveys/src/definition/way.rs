//! The way that a respondent has come, and where it goes on.

use super::{Condition, Form, condition::Known, form::Next};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What was submitted, by page. Also of pages that the way no longer comes by.
pub type Answers = BTreeMap<String, Map<String, Value>>;

/// A respondent's way through a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The pages that were submitted and count, in the order of the way.
    pub pages: Vec<usize>,
    /// Where it stops.
    pub stop: Stop,
}

/// Where a way stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// This page is to be submitted.
    At(usize),
    /// Everything is answered.
    End,
    /// The last page ruled them out.
    ScreenedOut,
}

impl Form {
    /// Follows the routes from the first page as far as `answers` lead. What was answered beside the way does not count.
    pub fn way(&self, answers: &Answers) -> Way {
        let mut pages = Vec::new();
        let mut page = 0;
        // Routes lead forward only, so no page comes twice.
        while answers.contains_key(&self.page(page).id) {
            pages.push(page);
            let known = |question: &str| self.known(&pages, answers, question, Known::Nothing);
            let taken = self.routes(page).iter().find(|(when, _)| holds(when.as_ref(), &known));
            match taken.map(|(_, next)| *next) {
                Some(Next::Page(next)) => page = next,
                Some(Next::ScreenOut) => return Way { pages, stop: Stop::ScreenedOut },
                Some(Next::Complete) | None => return Way { pages, stop: Stop::End },
            }
        }
        Way { pages, stop: Stop::At(page) }
    }

    /// Whether `condition` holds on this way; `None` while that depends on pages that may still come.
    pub fn holds(&self, condition: &Condition, way: &Way, answers: &Answers) -> Option<bool> {
        let unasked = match way.stop {
            Stop::At(_) => Known::NotYet,
            Stop::End | Stop::ScreenedOut => Known::Nothing,
        };
        condition.decide(&|question: &str| self.known(&way.pages, answers, question, unasked))
    }

    /// How many pages may still come at most, the one that the way stops at included.
    pub fn pages_left(&self, way: &Way) -> usize {
        let Stop::At(at) = way.stop else {
            return 0;
        };
        self.longest(at, &mut vec![None; self.definition().pages.len()])
    }

    /// The longest way from `page` on; `known` are those found before.
    fn longest(&self, page: usize, known: &mut Vec<Option<usize>>) -> usize {
        if let Some(length) = known[page] {
            return length;
        }
        let nexts: Vec<Next> = self.routes(page).iter().map(|(_, next)| *next).collect();
        let rest = nexts.into_iter().map(|next| match next {
            Next::Page(next) => self.longest(next, known),
            Next::Complete | Next::ScreenOut => 0,
        });
        let length = 1 + rest.max().unwrap_or(0);
        known[page] = Some(length);
        length
    }

    fn known<'a>(&self, pages: &[usize], answers: &'a Answers, question: &str, unasked: Known<'a>) -> Known<'a> {
        let Some(page) = self.page_of(question) else {
            return Known::Nothing;
        };
        if !pages.contains(&page) {
            return unasked;
        }
        let answer = answers.get(&self.page(page).id).and_then(|answers| answers.get(question));
        answer.map_or(Known::Nothing, Known::Answer)
    }
}

fn holds<'a>(when: Option<&Condition>, known: &impl Fn(&str) -> Known<'a>) -> bool {
    when.is_none_or(|when| when.decide(known) == Some(true))
}
