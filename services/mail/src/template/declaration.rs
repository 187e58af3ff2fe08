//! The declarations of a template's variables: every placeholder must name one of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parse::RESERVED;
use super::problem::TemplateProblem;
use super::value::check_value;

const MAX_DECLARATIONS: usize = 200;
const MAX_NAME_BYTES: usize = 100;

/// A variable that a template may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VariableDeclaration {
    /// A dotted path such as `contact.first_name`.
    pub name: String,
    /// What its values are.
    pub kind: VariableKind,
    /// The value to use when none, or null, is provided. A variable without a default is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// What it means, for the authors of templates.
    #[serde(default)]
    pub description: String,
    /// A value for previews.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
}

/// What the values of a variable are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VariableKind {
    /// A string.
    Text,
    /// A whole number.
    Integer,
    /// `{"amountMinor": "123456", "currency": "USD"}`; printed as `$1,234.56`.
    Money,
    /// `"2026-11-05"`; printed as `November 5, 2026`.
    Date,
    /// True or false, for conditions only.
    Boolean,
    /// An address that begins with `https://` or `mailto:`.
    Url,
    /// A list of objects, for loops only.
    List {
        /// The fields that each object has; none of them is a list.
        fields: BTreeMap<String, VariableKind>,
    },
}

impl VariableKind {
    /// Returns the kind in words, for messages.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Integer => "a whole number",
            Self::Money => "an amount of money such as {\"amountMinor\": \"123456\", \"currency\": \"USD\"}",
            Self::Date => "a date such as \"2026-11-05\"",
            Self::Boolean => "true or false",
            Self::Url => "an address that begins with https:// or mailto:",
            Self::List { .. } => "a list of objects",
        }
    }
}

/// Reports what is wrong with the declarations themselves.
pub(super) fn check_declarations(declarations: &[VariableDeclaration]) -> Vec<TemplateProblem> {
    let mut problems = Vec::new();
    if declarations.len() > MAX_DECLARATIONS {
        let message = format!("A template may declare {MAX_DECLARATIONS} variables at the most: remove unused ones.");
        return vec![TemplateProblem::new(super::TemplatePart::Variables, 0, message)];
    }
    let mut names = BTreeSet::new();
    for declaration in declarations {
        let name = &declaration.name;
        problems.extend(check_name(name));
        if !names.insert(name.as_str()) {
            problems.push(TemplateProblem::of_variable(name, format!("`{name}` is declared twice: remove one.")));
        }
        problems.extend(check_fields(declaration));
        problems.extend(check_given_values(declaration));
    }
    problems.extend(check_groups(&names));
    problems
}

/// A name that is both a variable and a group of variables could not be looked up.
fn check_groups(names: &BTreeSet<&str>) -> Vec<TemplateProblem> {
    let is_group = |name: &&&str| names.iter().any(|other| other.starts_with(&format!("{name}.")));
    let conflict = |name: &&str| {
        let message = format!("`{name}` is declared both as a value and as a group of variables: rename one.");
        TemplateProblem::of_variable(name, message)
    };
    names.iter().filter(is_group).map(conflict).collect()
}

fn check_name(name: &str) -> Option<TemplateProblem> {
    let form = "use letters, digits and `_` in each part, beginning with a letter, with dots in between";
    let segments: Vec<&str> = name.split('.').collect();
    let letters = |segment: &str| segment.chars().filter(|letter| !letter.is_ascii_digit()).count();
    let message = if name.len() > MAX_NAME_BYTES || segments.len() > 5 {
        format!("The variable name is longer than {MAX_NAME_BYTES} bytes or five parts: shorten it.")
    } else if !segments.iter().all(|segment| is_identifier(segment)) {
        format!("`{name}` is not the name of a variable: {form}.")
    } else if let Some(word) = segments.iter().find(|segment| RESERVED.contains(segment)) {
        format!("`{word}` is a word of the template language: rename the variable.")
    } else if letters(segments[0]) < 2 {
        // One wrong letter could turn `x1` into the number 11, which is no longer recognised as a misspelt name.
        format!("`{name}` is too short: begin with a word of at least two letters, so that typing errors are found.")
    } else {
        return None;
    };
    Some(TemplateProblem::of_variable(name, message))
}

fn is_identifier(segment: &str) -> bool {
    segment.starts_with(|first: char| first.is_ascii_alphabetic())
        && segment.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn check_fields(declaration: &VariableDeclaration) -> Vec<TemplateProblem> {
    let name = &declaration.name;
    let VariableKind::List { fields } = &declaration.kind else { return Vec::new() };
    let mut problems = Vec::new();
    if fields.is_empty() {
        let message = format!("The list `{name}` declares no fields: name the fields of its objects.");
        problems.push(TemplateProblem::of_variable(name, message));
    }
    for (field, kind) in fields {
        let path = format!("{name}.{field}");
        if !is_identifier(field) || RESERVED.contains(&field.as_str()) {
            let message = format!("`{field}` cannot be the name of a field: use letters, digits and `_`.");
            problems.push(TemplateProblem::of_variable(&path, message));
        }
        if matches!(kind, VariableKind::List { .. }) {
            let message = format!("`{path}` is a list inside a list: declare it as a list of its own.");
            problems.push(TemplateProblem::of_variable(&path, message));
        }
    }
    problems
}

/// Checks the default and the example against the kind.
fn check_given_values(declaration: &VariableDeclaration) -> Vec<TemplateProblem> {
    let name = &declaration.name;
    let given = [("default", &declaration.default), ("example", &declaration.example)];
    let mut problems = Vec::new();
    for (what, value) in given {
        let Some(value) = value else { continue };
        for problem in check_value(name, &declaration.kind, value) {
            let message = format!("The {what} of `{}` is wrong. {}", problem.path, problem.message);
            problems.push(TemplateProblem::of_variable(name, message));
        }
    }
    problems
}
