//! A definition as authors write it.

use super::Condition;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// A whole questionnaire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// In the order in which they are shown, where no route says otherwise.
    pub pages: Vec<Page>,
}

/// What is shown and submitted at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Unique among the pages.
    pub id: String,
    /// Its heading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What is asked on it.
    pub questions: Vec<Question>,
    /// Where it leads: the first route whose condition holds is taken; without one, the next page follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Unique in the whole definition.
    pub id: String,
    /// The words.
    pub text: String,
    /// The page is not taken without an answer.
    #[serde(default)]
    pub required: bool,
    /// What an answer is.
    #[serde(flatten)]
    pub kind: QuestionKind,
}

/// What an answer is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum QuestionKind {
    /// The id of one choice.
    Single {
        /// What can be chosen.
        options: Vec<Choice>,
    },
    /// A list of ids of choices.
    Multiple {
        /// What can be chosen.
        options: Vec<Choice>,
        /// At least so many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_choices: Option<u32>,
        /// At most so many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_choices: Option<u32>,
    },
    /// A number.
    Number {
        /// The smallest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        /// The largest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
        /// Only whole ones.
        #[serde(default)]
        integer: bool,
    },
    /// Words.
    Text {
        /// At least so many characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_length: Option<u32>,
        /// At most so many characters; never more than [`TEXT_MAX`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_length: Option<u32>,
        /// A regular expression that the whole answer matches.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
    },
    /// A day, as `2026-01-31`.
    Date {
        /// The earliest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Date>,
        /// The latest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Date>,
    },
    /// A whole number of a scale.
    Scale {
        /// Where it begins.
        min: i32,
        /// Where it ends.
        max: i32,
    },
    /// The id of one column for each row, by the ids of the rows.
    Matrix {
        /// What is judged.
        rows: Vec<Choice>,
        /// By what.
        columns: Vec<Choice>,
    },
}

/// Something that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Unique among its neighbours; this is what an answer holds.
    pub id: String,
    /// The words.
    pub label: String,
}

/// Where a page leads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// If this holds; always, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// There.
    pub then: Target,
}

/// Where a route leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// To the page of this id.
    Page(String),
    /// To the end.
    Complete,
    /// Out: this respondent is not asked further.
    ScreenOut,
}

/// The longest answer in words.
pub const TEXT_MAX: u32 = 10_000;
/// The most pages.
pub const PAGES_MAX: usize = 200;
/// The most questions of a page.
pub const QUESTIONS_MAX: usize = 100;
/// The most choices, rows or columns of a question.
pub const CHOICES_MAX: usize = 500;
/// The most routes of a page.
pub const ROUTES_MAX: usize = 50;

impl Definition {
    /// The index of the page of this id.
    pub fn page_index(&self, id: &str) -> Option<usize> {
        self.pages.iter().position(|page| page.id == id)
    }
}
