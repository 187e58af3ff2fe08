//! Extracts loan numbers, borrowers, amounts, dates and the kind of document from text.
//!
//! No I/O and no guesses. Ambiguous values are listed under `unclear` with the reason.

mod dates;
mod document_kind;
mod labels;
mod money;

pub use document_kind::DocumentKind;

use jiff::civil::Date;
use onceward_money::{Currency, Minor};
use serde::Serialize;

/// The maximum number of values of each field. A document with more is not about a loan.
const MAX_VALUES: usize = 500;
/// The text before a value is its label, up to this many characters.
const LABEL_MAX_CHARS: usize = 60;

/// A text that follows its label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabeledField {
    /// The text as the document has it.
    pub value: String,
    /// The page, counted from 1.
    pub page: u32,
}

/// An amount of money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AmountField {
    /// The text as the document has it.
    pub text: String,
    /// The amount in the smallest unit of its currency, or in hundredths if none is named.
    pub minor: Minor,
    /// The currency, if the document names one.
    pub currency: Option<Currency>,
    /// The text before it on the same line.
    pub label: Option<String>,
    /// The page, counted from 1.
    pub page: u32,
}

/// A date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DateField {
    /// The text as the document has it.
    pub text: String,
    /// The date that the text means.
    pub date: Date,
    /// The text before it on the same line.
    pub label: Option<String>,
    /// The page, counted from 1.
    pub page: u32,
}

/// A text that looks like a value but is ambiguous or invalid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnclearField {
    /// `amount` or `date`.
    pub what: &'static str,
    /// The text as the document has it.
    pub text: String,
    /// Why it is listed here.
    pub reason: &'static str,
    /// The page, counted from 1.
    pub page: u32,
}

/// The values found in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DocumentFields {
    /// Distinct values, each with the first page it is on.
    pub loan_numbers: Vec<LabeledField>,
    /// Distinct values, each with the first page it is on.
    pub borrower_names: Vec<LabeledField>,
    /// In text order.
    pub amounts: Vec<AmountField>,
    /// In text order.
    pub dates: Vec<DateField>,
    /// Ambiguous and invalid values.
    pub unclear: Vec<UnclearField>,
}

/// Extracts the fields from the pages, of which the first is page 1. Also returns whether values were left out because
/// there were too many.
pub fn find<'t>(pages: impl IntoIterator<Item = &'t str>) -> (DocumentKind, DocumentFields, bool) {
    let mut fields = DocumentFields::default();
    let mut kinds = document_kind::KindScores::default();
    for (page, text) in (1..).zip(pages) {
        kinds.count(text);
        labels::find(text, page, &mut fields);
        dates::find(text, page, &mut fields);
        money::find(text, page, &mut fields);
    }
    let truncated = fields.truncate();
    (kinds.best(), fields, truncated)
}

impl DocumentFields {
    /// Returns whether anything was removed.
    fn truncate(&mut self) -> bool {
        let before = self.len();
        self.loan_numbers.truncate(MAX_VALUES);
        self.borrower_names.truncate(MAX_VALUES);
        self.amounts.truncate(MAX_VALUES);
        self.dates.truncate(MAX_VALUES);
        self.unclear.truncate(MAX_VALUES);
        self.len() < before
    }

    fn len(&self) -> usize {
        let named = self.loan_numbers.len() + self.borrower_names.len();
        named + self.amounts.len() + self.dates.len() + self.unclear.len()
    }
}

/// Returns the text before byte `position` on the same line, without punctuation that joins it to the value.
fn label(text: &str, position: usize) -> Option<String> {
    let line = text[..position].rsplit('\n').next().unwrap_or_default();
    let words = line.trim().trim_end_matches([':', '=', '.', '-', '$', ' ', '\u{a0}']);
    let from = words.char_indices().rev().nth(LABEL_MAX_CHARS - 1).map_or(0, |(from, _)| from);
    let label = words[from..].trim();
    label.chars().any(char::is_alphabetic).then(|| label.to_owned())
}
