//! What is wrong with a template or with the variables provided for it, as sentences that a person can act on.
//!
//! A problem names placeholders, variables and lines, never a value: values are personal data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The part of a template in which something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TemplatePart {
    /// The subject line.
    Subject,
    /// The HTML body.
    Html,
    /// The plain text body.
    Text,
    /// The declarations of variables.
    Variables,
}

impl fmt::Display for TemplatePart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Subject => "subject",
            Self::Html => "html",
            Self::Text => "text",
            Self::Variables => "variables",
        })
    }
}

/// A reason why a template is refused when it is saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateProblem {
    /// Where it was found.
    pub part: TemplatePart,
    /// The line within that part, from 1; in the declarations, none.
    pub line: Option<usize>,
    /// The placeholder, filter or variable that is wrong.
    pub placeholder: Option<String>,
    /// The nearest name that would be right.
    pub nearest: Option<String>,
    /// What is wrong and what to do, as a whole sentence.
    pub message: String,
}

impl TemplateProblem {
    pub(super) fn new(part: TemplatePart, line: usize, message: impl Into<String>) -> Self {
        let line = (part != TemplatePart::Variables).then_some(line);
        Self { part, line, placeholder: None, nearest: None, message: message.into() }
    }

    pub(super) fn of_variable(name: &str, message: impl Into<String>) -> Self {
        Self::new(TemplatePart::Variables, 0, message).with_placeholder(name)
    }

    pub(super) fn with_placeholder(mut self, placeholder: &str) -> Self {
        self.placeholder = Some(placeholder.to_owned());
        self
    }

    /// Appends the nearest of the names that would be right, if one is near.
    pub(super) fn suggesting<'a>(mut self, wrong: &str, right: impl IntoIterator<Item = &'a str>) -> Self {
        self.nearest = nearest(wrong, right).map(str::to_owned);
        if let Some(nearest) = &self.nearest {
            self.message.push_str(&format!(" Did you mean `{nearest}`?"));
        }
        self
    }
}

impl fmt::Display for TemplateProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}, line {line}: {}", self.part, self.message),
            None => write!(formatter, "{}: {}", self.part, self.message),
        }
    }
}

/// Something in a template that is allowed but that its author should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateWarning {
    /// Where it was found.
    pub part: TemplatePart,
    /// What it is and what to do, as a whole sentence.
    pub message: String,
}

/// A reason why the variables provided for a mail are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VariableProblem {
    /// The dotted path of the variable, for example `contact.first_name` or `payments[2].amount`.
    pub path: String,
    /// What is wrong and what to do, without the value.
    pub message: String,
}

impl VariableProblem {
    pub(super) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for VariableProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// A reason why a checked template could not be rendered. Rendering again fails again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The rendered subject is empty, has more than one line, or is too long.
    #[error("the rendered subject {reason}: shorten the template's subject or the variables in it")]
    Subject {
        /// What is wrong with the subject.
        reason: &'static str,
    },
    /// A rendered part is larger than a mail may be.
    #[error("the rendered {part} part is larger than {limit_bytes} bytes: shorten the template or its lists")]
    TooLarge {
        /// The part.
        part: TemplatePart,
        /// The limit that it exceeds.
        limit_bytes: usize,
    },
    /// The template engine refused the template: the variables were resolved for another version of it.
    #[error("the {part} part cannot be rendered: resolve the variables with the same version of the template")]
    Engine {
        /// The part.
        part: TemplatePart,
    },
}

/// Returns the candidate that is most similar to a misspelt name, or none if all are very different.
pub(super) fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LEAST_SIMILARITY: f64 = 0.4;
    let rated = candidates.into_iter().map(|candidate| {
        let similarity = strsim::normalized_damerau_levenshtein(&wrong.to_lowercase(), &candidate.to_lowercase());
        (similarity, candidate)
    });
    let best = rated.max_by(|(left, _), (right, _)| left.total_cmp(right))?;
    (best.0 >= LEAST_SIMILARITY).then_some(best.1)
}
