//! Patterns for text answers, compiled within a size limit per pattern and per definition.

use super::{QuestionKind, SurveyDefinition, faults::FaultCollector};
use regex::{Regex, RegexBuilder};
use std::collections::HashMap;

/// The maximum number of patterns per definition.
pub const PATTERNS_MAX: usize = 50;
/// The maximum length of a pattern, in characters.
pub const PATTERN_LENGTH_MAX: usize = 1_000;
/// The maximum length of an answer to a question with a pattern, in characters: matching time grows with it.
pub const PATTERN_TEXT_MAX: u32 = 1_000;
/// The compiled sizes that are tried, in bytes: a pattern counts as the first one that suffices.
const SIZES: [usize; 3] = [16 << 10, 64 << 10, 256 << 10];
/// The maximum total of the sizes of a definition's patterns, in bytes.
const TOTAL_BYTES_MAX: usize = 2 << 20;
/// The maximum cache size of a pattern while it matches, in bytes.
const CACHE_BYTES_MAX: usize = 256 << 10;

/// The compiled patterns of a definition.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    /// By question id.
    pub(super) by_question: HashMap<String, Regex>,
    compiled_bytes: usize,
}

impl Patterns {
    /// Returns the maximum memory that the patterns use, in bytes, each with the cache of one matching thread.
    pub(super) fn bytes(&self) -> usize {
        self.compiled_bytes + self.by_question.len() * CACHE_BYTES_MAX
    }
}

/// Compiles every pattern of `definition` once, and adds faults to `faults`.
pub(super) fn compile(definition: &SurveyDefinition, faults: &mut FaultCollector) -> Patterns {
    let declared: Vec<(String, &str, &str)> = patterns(definition).collect();
    let mut compiled = Patterns::default();
    if declared.len() > PATTERNS_MAX {
        faults.add(
            "/pages",
            format!("the definition has {} patterns; at most {PATTERNS_MAX} are allowed", declared.len()),
        );
        return compiled;
    }
    for (pointer, question, pattern) in declared {
        match compile_pattern(pattern) {
            Ok((regex, bytes)) => {
                compiled.compiled_bytes += bytes;
                compiled.by_question.insert(question.to_owned(), regex);
            }
            Err(reason) => faults.add(&pointer, reason),
        }
        if compiled.compiled_bytes > TOTAL_BYTES_MAX {
            faults.add(&pointer, "this pattern and those before it are too large in total; simplify or remove some");
            return compiled;
        }
    }
    compiled
}

fn patterns(definition: &SurveyDefinition) -> impl Iterator<Item = (String, &str, &str)> {
    definition.pages.iter().enumerate().flat_map(|(index, page)| {
        page.questions.iter().enumerate().filter_map(move |(number, question)| match &question.kind {
            QuestionKind::Text { pattern: Some(pattern), .. } => {
                let pointer = format!("/pages/{index}/questions/{number}/pattern");
                Some((pointer, question.id.as_str(), pattern.as_str()))
            }
            _ => None,
        })
    })
}

/// Compiles a pattern so that it matches the whole answer. Returns it with the bytes it counts as.
fn compile_pattern(pattern: &str) -> Result<(Regex, usize), String> {
    if pattern.chars().count() > PATTERN_LENGTH_MAX {
        return Err(format!("has more than {PATTERN_LENGTH_MAX} characters"));
    }
    for bytes in SIZES {
        let whole = format!("^(?:{pattern})$");
        match RegexBuilder::new(&whole).size_limit(bytes).dfa_size_limit(CACHE_BYTES_MAX).build() {
            Ok(regex) => return Ok((regex, bytes)),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default().trim();
                return Err(format!("is not a valid pattern: {last}"));
            }
        }
    }
    Err("is too large when compiled; write + instead of {1,40} and limit the length with max_length".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(patterns: &[String]) -> SurveyDefinition {
        let questions = patterns.iter().enumerate();
        let questions = questions
            .map(|(at, pattern)| json!({"id": format!("q{at}"), "text": "", "type": "text", "pattern": pattern}));
        serde_json::from_value(json!({"pages": [{"id": "p", "questions": questions.collect::<Vec<_>>()}]})).unwrap()
    }

    fn faults(patterns: &[String]) -> Vec<String> {
        let mut faults = FaultCollector::default();
        compile(&definition(patterns), &mut faults);
        faults.into_vec().into_iter().map(|fault| format!("{} {}", fault.pointer, fault.message)).collect()
    }

    #[test]
    fn usual_patterns_are_accepted() {
        let usual = [
            r"\d{5}(-\d{4})?",
            r"[^@\s]+@[^@\s]+\.[^@\s]+",
            r"\w+",
            r"[\p{L} '-]+",
            r"(?i)[a-z]{2}\d{2}[a-z0-9]{11,30}",
        ];
        assert_eq!(faults(&usual.map(String::from)), [""; 0]);
    }

    #[test]
    fn patterns_are_bounded_in_number_in_size_and_in_total() {
        assert_eq!(
            faults(&vec!["a".to_owned(); PATTERNS_MAX + 1]),
            ["/pages the definition has 51 patterns; at most 50 are allowed"]
        );
        let [large] = &faults(&[r"\w{200}".to_owned()])[..] else { panic!("one fault") };
        assert!(large.starts_with("/pages/0/questions/0/pattern is too large when compiled"), "{large}");
        assert!(faults(&["a".repeat(PATTERN_LENGTH_MAX + 1)])[0].contains("more than 1000 characters"));
        let together = faults(&vec![r"\w{3}".to_owned(); PATTERNS_MAX]);
        assert!(together.len() == 1 && together[0].contains("too large in total"), "{together:?}");
    }
}
