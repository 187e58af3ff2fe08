//! Renders a checked template with resolved variables.

use std::collections::BTreeMap;

use minijinja::Value as EngineValue;
use serde::Serialize;

use super::problem::{RenderError, TemplatePart, TemplateWarning};
use super::resolve::{ResolvedVariables, sorted};
use super::value::engine_value;
use super::{CheckedTemplate, engine};

/// Gmail shows only this much of an HTML part, followed by a link to the rest.
pub(super) const CLIPPED_HTML_BYTES: usize = 102 * 1024;
const MAX_SUBJECT_CHARS: usize = 255;

/// The parts of a mail, ready to be put into a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderedMail {
    /// One line of at most 255 characters.
    pub subject: String,
    /// The HTML part, if the template has one.
    pub html: Option<String>,
    /// The plain text part, with `\n` at the end of lines.
    pub text: String,
    /// True if the text part was derived from the HTML part.
    pub text_is_derived: bool,
    /// What a person should know before sending this.
    pub warnings: Vec<TemplateWarning>,
}

pub(super) fn render(template: &CheckedTemplate, variables: &ResolvedVariables) -> Result<RenderedMail, RenderError> {
    let subject = subject(template, variables)?;
    let context = context(template, variables);
    let source = &template.source;
    let render = |part, source: &Option<String>| {
        source.as_deref().map(|source| engine::render(part, source, &context)).transpose()
    };
    let html = render(TemplatePart::Html, &source.html)?;
    let written = render(TemplatePart::Text, &source.text)?;
    let text_is_derived = written.is_none();
    let text = written.unwrap_or_else(|| derived_text(html.as_deref().unwrap_or_default()));
    let mut warnings = Vec::new();
    if html.as_ref().is_some_and(|html| html.len() > CLIPPED_HTML_BYTES) {
        let message = "The HTML part is larger than 102 KB: Gmail clips it.".to_owned();
        warnings.push(TemplateWarning { part: TemplatePart::Html, message });
    }
    if text_is_derived {
        let message = "The text part is derived from the HTML part.".to_owned();
        warnings.push(TemplateWarning { part: TemplatePart::Text, message });
    }
    Ok(RenderedMail { subject, html, text: text.replace("\r\n", "\n").replace('\r', "\n"), text_is_derived, warnings })
}

pub(super) fn subject(template: &CheckedTemplate, variables: &ResolvedVariables) -> Result<String, RenderError> {
    let context = context(template, variables);
    let subject = engine::render(TemplatePart::Subject, &template.source.subject, &context)?;
    let subject = subject.trim().to_owned();
    let reason = if subject.is_empty() {
        "is empty"
    } else if subject.chars().any(|letter| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')) {
        "has a line break or a control character"
    } else if subject.chars().count() > MAX_SUBJECT_CHARS {
        "is longer than 255 characters"
    } else {
        return Ok(subject);
    };
    Err(RenderError::Subject { reason })
}

fn derived_text(html: &str) -> String {
    nanohtml2text::html2text(html).replace("\r\n", "\n").trim().to_owned() + "\n"
}

/// Returns the variables as the engine's values. A group of variables becomes a map.
fn context(template: &CheckedTemplate, variables: &ResolvedVariables) -> EngineValue {
    let declared = sorted(&template.source);
    let leaves = declared.iter().filter_map(|(name, variable)| {
        let value = variables.get(name)?;
        Some((name.split('.').collect::<Vec<_>>(), engine_value(&variable.kind, value)))
    });
    group(&leaves.collect::<Vec<_>>(), 0)
}

/// Groups sorted names by their segment at `depth`; the depth is limited by the number of segments in a name.
fn group(leaves: &[(Vec<&str>, EngineValue)], depth: usize) -> EngineValue {
    let mut groups: BTreeMap<&str, Vec<(Vec<&str>, EngineValue)>> = BTreeMap::new();
    for (segments, value) in leaves {
        if let Some(segment) = segments.get(depth) {
            groups.entry(segment).or_default().push((segments.clone(), value.clone()));
        }
    }
    let entry = |(segment, members): (&str, Vec<(Vec<&str>, EngineValue)>)| {
        let value = match members.as_slice() {
            [(segments, value)] if segments.len() == depth + 1 => value.clone(),
            members => group(members, depth + 1),
        };
        (segment.to_owned(), value)
    };
    EngineValue::from_pairs(groups.into_iter().map(entry))
}
