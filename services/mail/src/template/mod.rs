//! Mail templates: a misspelt placeholder is found when the template is saved, not when the mail is sent.
//!
//! A [`TemplateSource`] is what an author writes. [`CheckedTemplate::check`] refuses it with all its problems, or
//! returns a template that renders for every set of variables that [`CheckedTemplate::resolve`] accepts. Reading order:
//! `declaration.rs` (variables), `lexer.rs` and `parse.rs` (the language), `analysis.rs` (names and kinds), `html.rs`
//! (links), `value.rs` and `format.rs` (values), `engine.rs` (rendering), `resolve.rs`, `diff.rs`, `ready.rs`.

mod analysis;
mod check;
mod declaration;
mod diff;
mod engine;
mod format;
mod html;
mod lexer;
mod parse;
mod problem;
mod ready;
mod render;
mod resolve;
mod value;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use declaration::{VariableDeclaration, VariableKind};
pub use diff::{DeclarationChange, TemplateDiff, diff};
pub use problem::{RenderError, TemplatePart, TemplateProblem, TemplateWarning, VariableProblem};
pub use ready::{ReadyTemplate, ready_templates};
pub use render::RenderedMail;
pub use resolve::ResolvedVariables;

/// What the author of a template writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateSource {
    /// The subject, one line.
    pub subject: String,
    /// The HTML part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// The plain text part; derived from the HTML part if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The variables that the parts may use.
    #[serde(default)]
    pub variables: Vec<VariableDeclaration>,
}

/// A template without problems.
#[derive(Clone, Debug)]
pub struct CheckedTemplate {
    source: TemplateSource,
    warnings: Vec<TemplateWarning>,
    /// The variables that the subject uses: their values must be one line.
    in_subject: Vec<String>,
}

impl CheckedTemplate {
    /// Checks a template.
    ///
    /// # Errors
    ///
    /// Returns every problem at once: syntax errors, names that are not declared, unknown filters, refused links, and
    /// faults of the declarations.
    pub fn check(source: TemplateSource) -> Result<Self, Vec<TemplateProblem>> {
        check::check(source)
    }

    /// Returns what was checked.
    pub fn source(&self) -> &TemplateSource {
        &self.source
    }

    /// Returns what the author should know although the template is accepted.
    pub fn warnings(&self) -> &[TemplateWarning] {
        &self.warnings
    }

    /// Returns true if the text part is derived from the HTML part.
    pub fn text_is_derived(&self) -> bool {
        self.source.text.is_none()
    }

    /// Checks the variables provided for a mail and fills in the defaults. Resolving the result again returns the same.
    ///
    /// # Errors
    ///
    /// Returns every missing, null, unknown or wrong variable by its path, never with its value.
    pub fn resolve(&self, provided: &Map<String, Value>) -> Result<ResolvedVariables, Vec<VariableProblem>> {
        resolve::resolve(self, provided)
    }

    /// Renders the mail.
    ///
    /// # Errors
    ///
    /// Fails if a part is too large, or if the variables were resolved for another template.
    pub fn render(&self, variables: &ResolvedVariables) -> Result<RenderedMail, RenderError> {
        render::render(self, variables)
    }

    /// Returns variables for a preview: the examples and defaults of the declarations, or invented values.
    pub fn sample_variables(&self) -> Map<String, Value> {
        resolve::nested(self.source.variables.iter().map(|variable| (variable.name.as_str(), value::sample(variable))))
    }
}
