//! Classifies a failure: does the address not exist, or is something else wrong?
//!
//! "5.x.x means that the address does not exist" is wrong for two thirds of all bounces, so the text is read first. The
//! rules are data (`data/bounce-classes.toml`) that an operator can replace.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::report::{RecipientAction, ReportedRecipient};

const BUNDLED: &str = include_str!("../../data/bounce-classes.toml");
const MAX_RULES: usize = 500;
const MAX_REGEX_BYTES: usize = 4 * 1024 * 1024;

/// What a failure means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BounceVerdict {
    /// The class, for example `user_unknown`; `undetermined` if no rule matched.
    pub class: String,
    /// True if the address does not exist any more. If in doubt, it is false.
    pub is_hard: bool,
}

/// Why a file of rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BounceRuleError {
    /// The file is not TOML of the expected form.
    #[error("the bounce rules cannot be read: {0}")]
    Form(String),
    /// A rule's pattern is not a regular expression.
    #[error("the pattern of rule {rule} (class {class}) is not a regular expression: correct it")]
    Pattern {
        /// The number of the rule in the file, from 1.
        rule: usize,
        /// Its class.
        class: String,
    },
    /// A rule would match everything or there are too many rules.
    #[error("rule {0} has no condition, or there are more than 500 rules: remove it")]
    Limit(usize),
}

/// Ordered rules; the first that matches decides.
#[derive(Debug)]
pub struct BounceClassifier {
    rules: Vec<BounceRule>,
}

#[derive(Debug)]
struct BounceRule {
    class: String,
    is_hard: bool,
    status: Option<Regex>,
    replies: Vec<u16>,
    command: Option<String>,
    text: Option<Regex>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    rule: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    class: String,
    #[serde(default)]
    hard: bool,
    status: Option<String>,
    #[serde(default)]
    reply: Vec<u16>,
    command: Option<String>,
    /// Any of these phrases, each a regular expression without regard to case.
    #[serde(default)]
    text: Vec<String>,
}

impl BounceClassifier {
    /// Returns the classifier with the rules that come with the product. A test checks that they can be read.
    pub fn bundled() -> Self {
        Self::from_toml(BUNDLED).unwrap_or(Self { rules: Vec::new() })
    }

    /// Reads rules in the form of `data/bounce-classes.toml`.
    ///
    /// # Errors
    ///
    /// Fails if the text has another form, or a pattern is not a regular expression.
    pub fn from_toml(text: &str) -> Result<Self, BounceRuleError> {
        // The error's own text quotes the file, which contains no personal data.
        let file: RuleFile = toml::from_str(text).map_err(|error| BounceRuleError::Form(error.to_string()))?;
        if file.rule.len() > MAX_RULES {
            return Err(BounceRuleError::Limit(MAX_RULES + 1));
        }
        let rules = file.rule.into_iter().enumerate().map(|(index, entry)| compile(index + 1, entry));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// Returns what a failure means. Recipients whose mail did not fail are never hard.
    ///
    /// Rules with a text are tried with what the receiving system said, then with the text for people, and rules
    /// without a text come last.
    pub fn classify(&self, recipient: &ReportedRecipient) -> BounceVerdict {
        match recipient.action {
            RecipientAction::Failed => {}
            RecipientAction::Complained => return verdict("complaint", false),
            RecipientAction::Delayed => return verdict("delayed", false),
            _ => return verdict("delivered", false),
        }
        let (diagnostic, notice) = (single_line(&recipient.diagnostic), single_line(&recipient.notice));
        let by_text = |text: &str| {
            let rules = self.rules.iter().filter(|rule| rule.text.is_some());
            rules.into_iter().find(|rule| rule.matches(recipient, text))
        };
        let by_code = || self.rules.iter().find(|rule| rule.text.is_none() && rule.matches(recipient, ""));
        let rule = by_text(&diagnostic).or_else(|| by_text(&notice)).or_else(by_code);
        rule.map_or(verdict("undetermined", false), |rule| verdict(&rule.class, rule.is_hard))
    }
}

fn verdict(class: &str, is_hard: bool) -> BounceVerdict {
    BounceVerdict { class: class.to_owned(), is_hard }
}

impl BounceRule {
    fn matches(&self, recipient: &ReportedRecipient, text: &str) -> bool {
        let status = recipient.status.as_deref().unwrap_or_default();
        self.status.as_ref().is_none_or(|pattern| pattern.is_match(status))
            && (self.replies.is_empty() || recipient.reply_code.is_some_and(|code| self.replies.contains(&code)))
            && self.command.as_deref().is_none_or(|command| recipient.command == Some(command))
            && self.text.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }
}

fn compile(number: usize, entry: RuleEntry) -> Result<BounceRule, BounceRuleError> {
    if entry.status.is_none() && entry.reply.is_empty() && entry.text.is_empty() && entry.command.is_none() {
        return Err(BounceRuleError::Limit(number));
    }
    let pattern = |pattern: &str| {
        let built = RegexBuilder::new(pattern).case_insensitive(true).size_limit(MAX_REGEX_BYTES).build();
        built.map_err(|_| BounceRuleError::Pattern { rule: number, class: entry.class.clone() })
    };
    let status = entry.status.as_deref().map(|status| pattern(&format!("^(?:{status})$"))).transpose()?;
    let text = match entry.text.as_slice() {
        [] => None,
        phrases => Some(pattern(&format!("(?:{})", phrases.join("|")))?),
    };
    let (is_hard, replies, command) = (entry.hard, entry.reply, entry.command);
    Ok(BounceRule { is_hard, status, replies, command, text, class: entry.class })
}

/// Replies are folded and repeat their code on each line: `550-5.1.1 no such\n550 5.1.1 user`.
fn single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
