//! A definition as authors write it.

use super::{Condition, parse::RawQuestion};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// A whole questionnaire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct SurveyDefinition {
    /// The pages, in the order in which they are shown unless a route leads elsewhere.
    pub pages: Vec<SurveyPage>,
}

/// A page: the questions that are shown and submitted together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct SurveyPage {
    /// Unique among the pages.
    pub id: String,
    /// The page's heading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The page's questions.
    pub questions: Vec<Question>,
    /// The page's routes: the first one whose condition holds is taken; if none does, the next page follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<PageRoute>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawQuestion")]
pub struct Question {
    /// Unique in the whole definition.
    pub id: String,
    /// The question's text.
    pub text: String,
    /// Whether the page is rejected without an answer to this question.
    pub required: bool,
    /// The type of the answer.
    #[serde(flatten)]
    pub kind: QuestionKind,
}

/// The type of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum QuestionKind {
    /// The id of one choice.
    Single {
        /// The choices.
        options: Vec<Choice>,
    },
    /// A list of ids of choices.
    Multiple {
        /// The choices.
        options: Vec<Choice>,
        /// The minimum number of choices.
        #[serde(skip_serializing_if = "Option::is_none")]
        min_choices: Option<u32>,
        /// The maximum number of choices.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_choices: Option<u32>,
    },
    /// A number.
    Number {
        /// The minimum.
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        /// The maximum.
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
        /// Whether only whole numbers are accepted.
        integer: bool,
    },
    /// Free text.
    Text {
        /// The minimum length in characters.
        #[serde(skip_serializing_if = "Option::is_none")]
        min_length: Option<u32>,
        /// The maximum length in characters; never more than [`TEXT_MAX`].
        #[serde(skip_serializing_if = "Option::is_none")]
        max_length: Option<u32>,
        /// A regular expression that must match the whole answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
    },
    /// A date, such as `2026-01-31`.
    Date {
        /// The earliest accepted date.
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<Date>,
        /// The latest accepted date.
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<Date>,
    },
    /// A whole number on a scale.
    Scale {
        /// The first step.
        min: i32,
        /// The last step; a scale has at most [`SCALE_STEPS_MAX`](super::size::SCALE_STEPS_MAX) steps.
        max: i32,
        /// The label of the first step.
        #[serde(skip_serializing_if = "Option::is_none")]
        min_label: Option<String>,
        /// The label of the last step.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_label: Option<String>,
    },
    /// The id of one column per row, by row id.
    Matrix {
        /// The items to rate.
        rows: Vec<Choice>,
        /// The ratings.
        columns: Vec<Choice>,
    },
}

/// A choice, or a row or column of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Choice {
    /// Unique within its list; answers contain this id.
    pub id: String,
    /// The text shown.
    pub label: String,
}

/// A route out of a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct PageRoute {
    /// The condition; a route without one is always taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// The target.
    pub then: RouteTarget,
}

/// The target of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", expecting = "`complete`, `screen_out` or {\"page\": \"id\"}")]
pub enum RouteTarget {
    /// The page with this id.
    Page(String),
    /// The end of the survey.
    Complete,
    /// Screen-out: the respondent is not asked further questions.
    ScreenOut,
}

/// The maximum length of a text answer, in characters.
pub const TEXT_MAX: u32 = 10_000;
/// The maximum number of pages.
pub const PAGES_MAX: usize = 200;
/// The maximum number of questions per page.
pub const QUESTIONS_MAX: usize = 100;
/// The maximum number of questions per definition.
pub const QUESTIONS_ALL_MAX: usize = 2_000;
/// The maximum number of choices, rows or columns per question.
pub const CHOICES_MAX: usize = 500;
/// The maximum number of routes per page.
pub const ROUTES_MAX: usize = 50;

impl SurveyDefinition {
    /// Returns the index of the page with this id.
    pub fn page_index(&self, id: &str) -> Option<usize> {
        self.pages.iter().position(|page| page.id == id)
    }
}
