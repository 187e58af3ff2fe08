//! Checks a whole template when it is saved.

use std::collections::BTreeSet;

use super::analysis::{Piece, analyse};
use super::declaration::check_declarations;
use super::engine::names_used;
use super::html::check_html;
use super::problem::{TemplatePart, TemplateProblem, TemplateWarning};
use super::render::CLIPPED_HTML_BYTES;
use super::{CheckedTemplate, TemplateSource};

const MAX_SUBJECT_BYTES: usize = 1_000;
const MAX_BODY_BYTES: usize = 256 * 1024;

pub(super) fn check(source: TemplateSource) -> Result<CheckedTemplate, Vec<TemplateProblem>> {
    let mut problems = check_form(&source);
    if !problems.is_empty() {
        // A part that is too large is not analysed: the work of checking is limited as well.
        return Err(problems);
    }
    problems.extend(check_declarations(&source.variables));
    let mut used = BTreeSet::new();
    let mut in_subject = Vec::new();
    for (part, text) in parts(&source) {
        let (found, names) = check_part(part, text, &source);
        problems.extend(found);
        if part == TemplatePart::Subject {
            in_subject = names.iter().cloned().collect();
        }
        used.extend(names);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let warnings = warnings(&source, &used);
    let template = CheckedTemplate { source, warnings, in_subject };
    match try_sample(&template) {
        Some(problem) => Err(vec![problem]),
        None => Ok(template),
    }
}

fn parts(source: &TemplateSource) -> impl Iterator<Item = (TemplatePart, &str)> {
    let subject = Some((TemplatePart::Subject, source.subject.as_str()));
    let html = source.html.as_deref().map(|html| (TemplatePart::Html, html));
    let text = source.text.as_deref().map(|text| (TemplatePart::Text, text));
    [subject, html, text].into_iter().flatten()
}

fn check_form(source: &TemplateSource) -> Vec<TemplateProblem> {
    let mut problems = Vec::new();
    let mut refuse = |part, message: String| problems.push(TemplateProblem::new(part, 1, message));
    if source.subject.trim().is_empty() {
        refuse(TemplatePart::Subject, "The subject is empty: write one.".into());
    }
    if source.subject.chars().any(|letter| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')) {
        let message = "The subject must be one line without control characters: remove line breaks and tabs.";
        refuse(TemplatePart::Subject, message.into());
    }
    let is_blank = |part: &Option<String>| part.as_ref().is_none_or(|text| text.trim().is_empty());
    if is_blank(&source.html) && is_blank(&source.text) {
        refuse(TemplatePart::Text, "The template has neither an HTML part nor a text part: write at least one.".into());
    }
    if source.text.is_some() && is_blank(&source.text) {
        refuse(TemplatePart::Text, "The text part is empty: write one, or leave it out to derive it.".into());
    }
    for (part, text) in parts(source) {
        let limit = if part == TemplatePart::Subject { MAX_SUBJECT_BYTES } else { MAX_BODY_BYTES };
        if text.len() > limit {
            refuse(part, format!("The part is longer than {limit} bytes: shorten it."));
        }
        if text.contains('\0') {
            refuse(part, "The part contains a NUL character: remove it.".into());
        }
    }
    problems
}

/// Returns the problems of a part and the declared variables that it uses.
fn check_part(part: TemplatePart, text: &str, source: &TemplateSource) -> (Vec<TemplateProblem>, BTreeSet<String>) {
    let mut found = analyse(part, text, &source.variables);
    if part == TemplatePart::Html {
        found.problems.extend(check_html(&found.pieces));
    }
    if found.problems.is_empty() {
        found.problems.extend(check_with_engine(part, text, &found.used, &found.pieces));
    }
    (found.problems, found.used)
}

/// Compares with what the engine itself understands, so that a difference between our parser and the engine's refuses a
/// template rather than lets a name pass unchecked.
fn check_with_engine(
    part: TemplatePart,
    text: &str,
    used: &BTreeSet<String>,
    pieces: &[(Piece<'_>, usize)],
) -> Option<TemplateProblem> {
    let names = match names_used(part, text) {
        Ok(names) => names,
        Err((line, detail)) => {
            return Some(TemplateProblem::new(part, line, format!("The template cannot be read: {detail}.")));
        }
    };
    // The engine reports a field of a loop's variable only outside the loop, where the analysis has refused it.
    let unseen = names.into_iter().find(|name| !used.contains(name))?;
    let line = pieces.iter().find_map(|(piece, line)| match piece {
        Piece::Placeholder(name, _) if *name == unseen => Some(*line),
        _ => None,
    });
    let message = format!("The name `{unseen}` cannot be checked here: write the placeholder in a simpler form.");
    Some(TemplateProblem::new(part, line.unwrap_or(1), message).with_placeholder(&unseen))
}

fn warnings(source: &TemplateSource, used: &BTreeSet<String>) -> Vec<TemplateWarning> {
    let mut warnings = Vec::new();
    let unused = source.variables.iter().filter(|variable| !used.contains(&variable.name));
    for variable in unused {
        let message = format!("`{}` is declared but not used: remove it, or use it.", variable.name);
        warnings.push(TemplateWarning { part: TemplatePart::Variables, message });
    }
    if source.text.is_none() {
        let message = "The text part is derived from the HTML part: read it in the preview.".to_owned();
        warnings.push(TemplateWarning { part: TemplatePart::Text, message });
    }
    if source.html.as_ref().is_some_and(|html| html.len() > CLIPPED_HTML_BYTES) {
        let message = "The HTML part is larger than 102 KB: Gmail clips it. Shorten it.".to_owned();
        warnings.push(TemplateWarning { part: TemplatePart::Html, message });
    }
    warnings
}

/// Renders with sample variables. The checks above make a failure impossible except for a derived text that is empty
/// and for a subject that is too long.
fn try_sample(template: &CheckedTemplate) -> Option<TemplateProblem> {
    let resolved = match template.resolve(&template.sample_variables()) {
        Ok(resolved) => resolved,
        Err(problems) => {
            let problem = problems.first()?;
            let message = format!("With the sample of `{}`: {}", problem.path, problem.message);
            return Some(TemplateProblem::of_variable(&problem.path, message));
        }
    };
    match template.render(&resolved) {
        Ok(mail) if mail.text.trim().is_empty() => {
            let message = "The text part would be empty with the sample variables: write a text part.";
            Some(TemplateProblem::new(TemplatePart::Text, 1, message))
        }
        Ok(_) => None,
        Err(error) => Some(TemplateProblem::new(TemplatePart::Subject, 1, format!("With sample variables, {error}."))),
    }
}
