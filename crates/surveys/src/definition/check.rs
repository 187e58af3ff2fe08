//! Everything that is wrong with a whole definition, each fault by its place: `pages[2].questions[0].pattern`.

use super::{
    Choice, Condition, Definition, Question, QuestionKind, Target,
    condition::DEPTH_MAX,
    form::{Next, routes},
    types::{CHOICES_MAX, PAGES_MAX, QUESTIONS_MAX, ROUTES_MAX, TEXT_MAX},
};
use regex::{Regex, RegexBuilder};
use std::collections::HashSet;

/// Something that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// As `pages[2].questions[0].pattern`.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

/// A compiled pattern may have so many bytes: enough for what forms ask for, and no way to fill the memory.
const PATTERN_BYTES: usize = 1 << 18;
const ID_MAX: usize = 64;

/// The pattern, for the whole of an answer.
pub(super) fn whole(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(PATTERN_BYTES).build()
}

pub(super) fn faults(definition: &Definition) -> Vec<Fault> {
    let mut found = Vec::new();
    let pages = &definition.pages;
    if pages.is_empty() {
        tell(&mut found, "pages", "there are none: a survey has at least one page");
    }
    most(&mut found, "pages", pages.len(), PAGES_MAX);
    ids(&mut found, pages.iter().enumerate().map(|(index, page)| (format!("pages[{index}].id"), page.id.as_str())));
    let all = pages.iter().enumerate().flat_map(|(index, page)| {
        let place = move |number| format!("pages[{index}].questions[{number}]");
        page.questions.iter().enumerate().map(move |(number, question)| (place(number), question))
    });
    ids(&mut found, all.clone().map(|(place, question)| (format!("{place}.id"), question.id.as_str())));
    all.for_each(|(place, question)| self::question(&mut found, &place, question));
    for (index, page) in pages.iter().enumerate() {
        most(&mut found, &format!("pages[{index}].questions"), page.questions.len(), QUESTIONS_MAX);
        most(&mut found, &format!("pages[{index}].routes"), page.routes.len(), ROUTES_MAX);
    }
    routing(&mut found, definition);
    found
}

fn tell(found: &mut Vec<Fault>, place: &str, message: impl Into<String>) {
    found.push(Fault { place: place.to_owned(), message: message.into() });
}

fn most(found: &mut Vec<Fault>, place: &str, count: usize, most: usize) {
    if count > most {
        tell(found, place, format!("there are {count}; at most {most}"));
    }
}

fn ids<'a>(found: &mut Vec<Fault>, ids: impl Iterator<Item = (String, &'a str)>) {
    let mut seen = HashSet::new();
    for (place, id) in ids {
        if id.is_empty()
            || id.len() > ID_MAX
            || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        {
            tell(found, &place, format!("{id:?} is no id: use 1 to {ID_MAX} letters, digits, '_' or '-'"));
        } else if !seen.insert(id) {
            tell(found, &place, format!("{id:?} is there twice"));
        }
    }
}

fn question(found: &mut Vec<Fault>, place: &str, question: &Question) {
    match &question.kind {
        QuestionKind::Single { options } => choices(found, &format!("{place}.options"), options),
        QuestionKind::Multiple { options, min_choices, max_choices } => {
            choices(found, &format!("{place}.options"), options);
            let (min, max) = (min_choices.unwrap_or(0), max_choices.unwrap_or(u32::MAX));
            if min > max || max == 0 {
                tell(found, &format!("{place}.max_choices"), "nothing can be chosen within these bounds");
            }
            if min as usize > options.len() {
                tell(found, &format!("{place}.min_choices"), format!("there are only {} choices", options.len()));
            }
        }
        QuestionKind::Number { min, max, .. } if min.zip(*max).is_some_and(|(min, max)| min > max) => {
            tell(found, &format!("{place}.max"), "is less than min");
        }
        QuestionKind::Date { min, max } if min.zip(*max).is_some_and(|(min, max)| min > max) => {
            tell(found, &format!("{place}.max"), "is before min");
        }
        QuestionKind::Scale { min, max } if min >= max => {
            tell(found, &format!("{place}.max"), "is not more than min");
        }
        QuestionKind::Text { min_length, max_length, pattern } => {
            let max = max_length.unwrap_or(TEXT_MAX);
            if max > TEXT_MAX || max == 0 || min_length.unwrap_or(0) > max {
                tell(
                    found,
                    &format!("{place}.max_length"),
                    format!("must be from min_length, and at least 1, to {TEXT_MAX}"),
                );
            }
            if let Some(error) = pattern.as_ref().and_then(|pattern| whole(pattern).err()) {
                let last = error.to_string().lines().last().unwrap_or_default().trim().to_owned();
                tell(found, &format!("{place}.pattern"), format!("is no pattern that can be used: {last}"));
            }
        }
        QuestionKind::Matrix { rows, columns } => {
            choices(found, &format!("{place}.rows"), rows);
            choices(found, &format!("{place}.columns"), columns);
        }
        _ => {}
    }
}

fn choices(found: &mut Vec<Fault>, place: &str, choices: &[Choice]) {
    if choices.is_empty() {
        tell(found, place, "there are none");
    }
    most(found, place, choices.len(), CHOICES_MAX);
    ids(found, choices.iter().enumerate().map(|(index, choice)| (format!("{place}[{index}].id"), choice.id.as_str())));
}

fn routing(found: &mut Vec<Fault>, definition: &Definition) {
    let pages = &definition.pages;
    for (index, page) in pages.iter().enumerate() {
        for (number, route) in page.routes.iter().enumerate() {
            let place = format!("pages[{index}].routes[{number}]");
            if let Target::Page(id) = &route.then
                && definition.page_index(id).is_none()
            {
                tell(found, &format!("{place}.then"), format!("there is no page {id:?}"));
            }
            if page.routes[..number].iter().any(|before| before.when.is_none()) {
                tell(found, &place, "is never taken: a route before it has no condition");
            }
        }
    }
    if pages.is_empty() || pages.len() > PAGES_MAX {
        return;
    }
    let nexts: Vec<Vec<usize>> = (0..pages.len()).map(|page| next_pages(definition, page)).collect();
    let reached = reach(&nexts, 0);
    for (index, page) in pages.iter().enumerate().filter(|(index, _)| !reached[*index]) {
        tell(found, &format!("pages[{index}]"), format!("page {:?} is never reached", page.id));
    }
    for (index, next) in nexts.iter().enumerate() {
        let ways_back = next.iter().find(|next| reach(&nexts, **next)[index]);
        if let Some(next) = ways_back.filter(|_| reached[index]) {
            let to = &pages[*next].id;
            tell(
                found,
                &format!("pages[{index}].routes"),
                format!("lead to page {to:?}, from which they lead back: a loop"),
            );
        }
    }
    for (index, page) in pages.iter().enumerate() {
        for (number, when) in
            page.routes.iter().enumerate().filter_map(|(number, route)| Some((number, route.when.as_ref()?)))
        {
            let place = format!("pages[{index}].routes[{number}].when");
            condition(definition, &place, when, found, |asked_on, question| {
                let before = asked_on == index || reach(&nexts, asked_on)[index];
                (!before).then(|| format!("question {question:?} is not asked before this page is left"))
            });
        }
    }
}

/// Faults of one condition. `too_late` says why a question of that page cannot be decided by here.
pub(super) fn condition(
    definition: &Definition,
    place: &str,
    condition: &Condition,
    found: &mut Vec<Fault>,
    too_late: impl Fn(usize, &str) -> Option<String>,
) {
    if condition.depth() > DEPTH_MAX {
        return tell(found, place, format!("is nested deeper than {DEPTH_MAX}"));
    }
    condition.leaves(place, &mut |place, leaf| {
        let Some(asked) = leaf.asked() else {
            return;
        };
        let asked_on = definition.pages.iter().enumerate().find_map(|(index, page)| {
            page.questions.iter().find(|question| question.id == asked.question).map(|question| (index, question))
        });
        match asked_on {
            None => tell(found, &place, format!("there is no question {:?}", asked.question)),
            Some((index, question)) => {
                if let Some(message) = leaf.misfit(question).or_else(|| too_late(index, &question.id)) {
                    tell(found, &place, message);
                }
            }
        }
    });
}

fn next_pages(definition: &Definition, page: usize) -> Vec<usize> {
    let pages = routes(definition, page).into_iter().filter_map(|(_, next)| match next {
        Next::Page(next) => Some(next),
        Next::Complete | Next::ScreenOut => None,
    });
    pages.collect()
}

/// Which pages can be reached from `from`, itself included.
fn reach(nexts: &[Vec<usize>], from: usize) -> Vec<bool> {
    let mut reached = vec![false; nexts.len()];
    let mut open = vec![from];
    while let Some(page) = open.pop() {
        if !std::mem::replace(&mut reached[page], true) {
            open.extend(&nexts[page]);
        }
    }
    reached
}
