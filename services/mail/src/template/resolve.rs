//! Resolves the variables provided for a mail: types, defaults, and names that the template does not declare.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::declaration::VariableDeclaration;
use super::problem::{RenderError, VariableProblem};
use super::value::{check_value, unknown_variable};
use super::{CheckedTemplate, TemplateSource, render};

/// Values for all the variables of a template, in a fixed order, so that equal variables have equal bytes as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ResolvedVariables {
    values: Map<String, Value>,
}

impl ResolvedVariables {
    /// Returns the values as nested objects, the defaults included.
    pub fn as_json(&self) -> &Map<String, Value> {
        &self.values
    }

    /// Returns the value at a dotted path.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let mut segments = name.split('.');
        let first = self.values.get(segments.next()?)?;
        segments.try_fold(first, |value, segment| value.get(segment))
    }
}

pub(super) fn resolve(
    template: &CheckedTemplate,
    provided: &Map<String, Value>,
) -> Result<ResolvedVariables, Vec<VariableProblem>> {
    let declared: BTreeMap<&str, &VariableDeclaration> =
        template.source.variables.iter().map(|variable| (variable.name.as_str(), variable)).collect();
    let mut found = BTreeMap::new();
    let mut problems = Vec::new();
    flatten("", provided, &declared, &mut found, &mut problems);
    let mut resolved = BTreeMap::new();
    for (name, variable) in &declared {
        let given = found.get(*name).copied().filter(|value| !value.is_null());
        match given.or(variable.default.as_ref()) {
            Some(value) => {
                problems.extend(check_value(name, &variable.kind, value));
                problems.extend(check_one_line(template, name, value));
                resolved.insert(*name, value.clone());
            }
            None if found.contains_key(*name) => {
                problems.push(VariableProblem::new(*name, "The value is null and there is no default: provide one."));
            }
            None if problems.iter().any(|problem| name.starts_with(&format!("{}.", problem.path))) => {}
            None => problems.push(VariableProblem::new(*name, "The variable is missing: provide it.")),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let resolved = ResolvedVariables { values: nested(resolved.into_iter()) };
    check_subject(template, &resolved)?;
    Ok(resolved)
}

/// Collects the provided values by their dotted names. The depth is that of the declared names.
fn flatten<'v>(
    prefix: &str,
    object: &'v Map<String, Value>,
    declared: &BTreeMap<&str, &VariableDeclaration>,
    found: &mut BTreeMap<String, &'v Value>,
    problems: &mut Vec<VariableProblem>,
) {
    for (key, value) in object {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let is_group = declared.keys().any(|name| name.starts_with(&format!("{path}.")));
        match value {
            _ if key.contains('.') => {
                problems.push(VariableProblem::new(path, "Provide nested objects, not dotted names."))
            }
            _ if declared.contains_key(path.as_str()) => {
                found.insert(path, value);
            }
            Value::Object(inner) if is_group => flatten(&path, inner, declared, found, problems),
            _ if is_group => problems.push(VariableProblem::new(path, "The value must be an object of variables.")),
            _ => problems.push(unknown_variable(&path, &path, declared.keys().copied())),
        }
    }
}

/// A line break in the subject would end the header.
fn check_one_line(template: &CheckedTemplate, name: &str, value: &Value) -> Option<VariableProblem> {
    let breaks_line = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    let in_subject = template.in_subject.iter().any(|used| used == name);
    let breaks = in_subject && value.as_str().is_some_and(|text| text.contains(breaks_line));
    breaks.then(|| {
        VariableProblem::new(name, "The value is used in the subject and must be one line: remove line breaks.")
    })
}

/// Renders the subject, whose length depends on the values, so that a request is refused rather than a mail lost later.
fn check_subject(template: &CheckedTemplate, resolved: &ResolvedVariables) -> Result<(), Vec<VariableProblem>> {
    match render::subject(template, resolved) {
        Ok(_) => Ok(()),
        Err(RenderError::Subject { reason }) => {
            let path = template.in_subject.join(", ");
            Err(vec![VariableProblem::new(path, format!("With these values the subject {reason}."))])
        }
        Err(error) => Err(vec![VariableProblem::new("", error.to_string())]),
    }
}

/// Builds nested objects from dotted names.
pub(super) fn nested<'n>(values: impl Iterator<Item = (&'n str, Value)>) -> Map<String, Value> {
    let mut root = Map::new();
    for (name, value) in values {
        insert(&mut root, name, value);
    }
    root
}

fn insert(object: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            object.insert(name.to_owned(), value);
        }
        Some((group, rest)) => {
            let inner = object.entry(group).or_insert_with(|| Value::Object(Map::new()));
            // Declarations where a value is also a group are refused, so this is always an object.
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// Returns the declarations by name, sorted, for the engine's context.
pub(super) fn sorted(source: &TemplateSource) -> BTreeMap<&str, &VariableDeclaration> {
    source.variables.iter().map(|variable| (variable.name.as_str(), variable)).collect()
}
