//! What the text of a document says: loan numbers, borrowers, amounts, dates, and what kind of document it is.
//!
//! No I/O and no guesses. What can be read in two ways is listed under `unclear` with the reason.

mod dates;
mod kind;
mod labels;
mod money;

pub use kind::Kind;

use jiff::civil::Date;
use onceward_money::{Currency, Minor};
use serde::Serialize;

/// Of each sort, more are left out: a document with so many is not one about a loan.
const MOST: usize = 500;
/// What stands before a value says what it is, up to so many characters.
const LABEL_MAX_CHARS: usize = 60;

/// A text that was found behind its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    /// As it stands there.
    pub value: String,
    /// On which page.
    pub page: u32,
}

/// An amount of money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// As it stands there.
    pub text: String,
    /// In the smallest unit of its currency; in hundredths where none is named.
    pub minor: Minor,
    /// Where the document says which.
    pub currency: Option<Currency>,
    /// What stands before it on its line.
    pub label: Option<String>,
    /// On which page.
    pub page: u32,
}

/// A day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Day {
    /// As it stands there.
    pub text: String,
    /// Which day it is.
    pub date: Date,
    /// What stands before it on its line.
    pub label: Option<String>,
    /// On which page.
    pub page: u32,
}

/// What looks like a value and is not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unclear {
    /// `amount` or `date`.
    pub what: &'static str,
    /// As it stands there.
    pub text: String,
    /// Why it is not read.
    pub reason: &'static str,
    /// On which page.
    pub page: u32,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fields {
    /// Each once, with the first page it is on.
    pub loan_numbers: Vec<Named>,
    /// Each once, with the first page it is on.
    pub borrower_names: Vec<Named>,
    /// In the order of the text.
    pub amounts: Vec<Amount>,
    /// In the order of the text.
    pub dates: Vec<Day>,
    /// What can be read in more than one way.
    pub unclear: Vec<Unclear>,
}

/// Reads the pages, the first being page 1. Also tells whether something was left out because there was too much.
pub fn find<'t>(pages: impl IntoIterator<Item = &'t str>) -> (Kind, Fields, bool) {
    let mut fields = Fields::default();
    let mut kinds = kind::Votes::default();
    for (page, text) in (1..).zip(pages) {
        kinds.count(text);
        labels::find(text, page, &mut fields);
        dates::find(text, page, &mut fields);
        money::find(text, page, &mut fields);
    }
    let cut = fields.cut();
    (kinds.winner(), fields, cut)
}

impl Fields {
    fn cut(&mut self) -> bool {
        let before = self.len();
        self.loan_numbers.truncate(MOST);
        self.borrower_names.truncate(MOST);
        self.amounts.truncate(MOST);
        self.dates.truncate(MOST);
        self.unclear.truncate(MOST);
        self.len() < before
    }

    fn len(&self) -> usize {
        let named = self.loan_numbers.len() + self.borrower_names.len();
        named + self.amounts.len() + self.dates.len() + self.unclear.len()
    }
}

/// The words on the same line before `at`, without what joins them to the value.
fn label(text: &str, at: usize) -> Option<String> {
    let line = text[..at].rsplit('\n').next().unwrap_or_default();
    let words = line.trim().trim_end_matches([':', '=', '.', '-', '$', ' ', '\u{a0}']);
    let from = words.char_indices().rev().nth(LABEL_MAX_CHARS - 1).map_or(0, |(from, _)| from);
    let label = words[from..].trim();
    label.chars().any(char::is_alphabetic).then(|| label.to_owned())
}
