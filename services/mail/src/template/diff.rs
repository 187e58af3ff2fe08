//! What changed between two versions of a template, for the person who approves the new one.

use std::collections::BTreeSet;

use serde::Serialize;
use similar::TextDiff;

use super::TemplateSource;
use super::declaration::VariableDeclaration;

/// The differences between two versions. A part that did not change has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateDiff {
    /// A unified diff of the subject.
    pub subject: Option<String>,
    /// A unified diff of the HTML part.
    pub html: Option<String>,
    /// A unified diff of the text part.
    pub text: Option<String>,
    /// The declarations that changed, by name.
    pub variables: Vec<DeclarationChange>,
}

/// A declaration that is different in the new version.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeclarationChange {
    /// The name of the variable.
    pub name: String,
    /// The declaration in the old version; none if the variable is new.
    pub old: Option<VariableDeclaration>,
    /// The declaration in the new version; none if the variable was removed.
    pub new: Option<VariableDeclaration>,
}

impl TemplateDiff {
    /// Returns true if the two versions are the same.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns what changed from `old` to `new`.
pub fn diff(old: &TemplateSource, new: &TemplateSource) -> TemplateDiff {
    TemplateDiff {
        subject: unified(Some(&old.subject), Some(&new.subject)),
        html: unified(old.html.as_deref(), new.html.as_deref()),
        text: unified(old.text.as_deref(), new.text.as_deref()),
        variables: changed_declarations(&old.variables, &new.variables),
    }
}

fn unified(old: Option<&str>, new: Option<&str>) -> Option<String> {
    if old == new {
        return None;
    }
    // A part that is absent is compared as an empty one; the header says which.
    let header = |version: &str, part: Option<&str>| match part {
        Some(_) => version.to_owned(),
        None => format!("{version} (absent)"),
    };
    let diff = TextDiff::from_lines(old.unwrap_or_default(), new.unwrap_or_default());
    Some(diff.unified_diff().context_radius(3).header(&header("old", old), &header("new", new)).to_string())
}

fn changed_declarations(old: &[VariableDeclaration], new: &[VariableDeclaration]) -> Vec<DeclarationChange> {
    let find = |declarations: &[VariableDeclaration], name: &str| {
        declarations.iter().find(|declaration| declaration.name == name).cloned()
    };
    let names: BTreeSet<&str> = old.iter().chain(new).map(|declaration| declaration.name.as_str()).collect();
    let changes = names.into_iter().map(|name| DeclarationChange {
        name: name.to_owned(),
        old: find(old, name),
        new: find(new, name),
    });
    changes.filter(|change| change.old != change.new).collect()
}
