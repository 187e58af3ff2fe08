//! The faults of a definition, up to a limit.

/// The maximum number of faults listed individually; the rest are counted.
pub const FAULTS_MAX: usize = 20;
/// The maximum length of an author's or respondent's text that a fault quotes, in characters.
const QUOTED_MAX: usize = 80;

/// A fault and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionFault {
    /// A JSON pointer, such as `/pages/2/questions/0/pattern`.
    pub pointer: String,
    /// The description of the fault.
    pub message: String,
}

/// Collects the first [`FAULTS_MAX`] faults, and counts the others.
#[derive(Debug, Default)]
pub(super) struct FaultCollector {
    found: Vec<DefinitionFault>,
    more: usize,
}

impl FaultCollector {
    pub(super) fn add(&mut self, pointer: &str, message: impl Into<String>) {
        if self.found.len() < FAULTS_MAX {
            self.found.push(DefinitionFault { pointer: pointer.to_owned(), message: message.into() });
        } else {
            self.more += 1;
        }
    }

    /// Adds a fault if `count` exceeds `max`.
    pub(super) fn check_max(&mut self, pointer: &str, count: usize, max: usize) {
        if count > max {
            self.add(pointer, format!("has {count} entries; at most {max} are allowed"));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the faults. If some were not listed, the last entry contains their number.
    pub(super) fn into_vec(mut self) -> Vec<DefinitionFault> {
        if let Some(message) = and_more(self.more) {
            self.found.push(DefinitionFault { pointer: String::new(), message });
        }
        self.found
    }
}

/// Returns the message for `more` unlisted faults.
pub(super) fn and_more(more: usize) -> Option<String> {
    (more > 0).then(|| format!("and {more} more"))
}

/// Quotes a user's text, truncated if it is long.
pub(super) fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Escapes a key for use in a JSON pointer.
pub fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
