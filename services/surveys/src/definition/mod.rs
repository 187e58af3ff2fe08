//! Survey definitions: the questions, their order and their routes. Pure, without I/O.
//!
//! Reading order: [`types`] is a definition as authors write it, `parse` parses it strictly, [`condition`] contains the
//! conditions of routes and quotas; `check` finds every fault of a whole definition ([`size`], `routing` and `pattern`
//! are its parts), and [`Questionnaire`] is a valid one, which follows the routes as far as the answers lead. `page`
//! checks the answers on a page.
//!
//! Invariant: a [`Questionnaire`]'s routes lead forward only, so every path through it ends.

mod check;
pub mod condition;
mod faults;
mod page;
mod parse;
mod pattern;
#[cfg(test)]
mod properties;
mod questionnaire;
mod routing;
pub mod size;
pub mod types;

pub use condition::Condition;
pub use faults::{DefinitionFault, escape_pointer};
pub use page::{AnswerFault, PageAnswers};
pub use parse::{parse, parse_definition};
pub(crate) use questionnaire::memory_bytes;
pub use questionnaire::{AnswersByPage, PathEnd, Questionnaire, SurveyPath};
pub use types::{Choice, PageRoute, Question, QuestionKind, RouteTarget, SurveyDefinition, SurveyPage};
