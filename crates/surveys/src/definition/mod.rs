//! What is asked, in which order, of whom: pure, without I/O.
//!
//! Reading order: [`types`] is a definition as authors write it, [`condition`] what routes and quotas decide by; `check`
//! finds everything that is wrong with a whole definition, and [`Form`] is one in which nothing is. `page` checks what was
//! answered on a page, `way` follows the routes as far as the answers lead.
//!
//! Invariant: a [`Form`]'s routes lead forward only, so every way through it has an end.

mod check;
pub mod condition;
mod form;
mod page;
#[cfg(test)]
mod properties;
pub mod types;
mod way;

pub use check::Fault;
pub use condition::Condition;
pub use form::Form;
pub use page::{AnswerFault, PageAnswers};
pub use types::{Choice, Definition, Page, Question, QuestionKind, Route, Target};
pub use way::{Answers, Stop, Way};
