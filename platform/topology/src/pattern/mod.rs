//! Matches a binding's pattern against a routing key, by the rules of AMQP.
//!
//! A key is a list of words separated by dots; the empty key has no words. In a topic pattern `*` matches exactly one
//! word and `#` any number of words, including none. A direct pattern is compared literally, so `#` and `*` have no
//! special meaning there. A fanout exchange ignores both pattern and key.

mod regex;
mod relation;

pub use regex::to_regex;
pub(crate) use relation::{covers, overlaps};

use crate::ExchangeKind;

/// One word of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word<'a> {
    /// Exactly this word.
    Literal(&'a str),
    /// `*`: any one word.
    One,
    /// `#`: any number of words.
    Many,
}

/// Returns whether a binding with `pattern` on an exchange of this kind matches `routing_key`.
///
/// The time is proportional to the product of the two lengths, whatever the pattern.
pub fn matches(kind: ExchangeKind, pattern: &str, routing_key: &str) -> bool {
    match kind {
        ExchangeKind::Fanout => true,
        ExchangeKind::Direct => pattern == routing_key,
        ExchangeKind::Topic => topic_matches(pattern, routing_key),
    }
}

fn topic_matches(pattern: &str, routing_key: &str) -> bool {
    let key: Vec<&str> = split(routing_key).collect();
    // reached[i]: the pattern processed so far can match the first i words of the key.
    let mut reached = vec![false; key.len() + 1];
    reached[0] = true;
    for word in split(pattern) {
        match word {
            "#" => {
                let first = reached.iter().position(|r| *r).unwrap_or(reached.len());
                reached[first..].fill(true);
            }
            word => {
                for i in (0..key.len()).rev() {
                    reached[i + 1] = reached[i] && (word == "*" || word == key[i]);
                }
                reached[0] = false;
            }
        }
    }
    reached[key.len()]
}

/// Parses the words of a pattern on an exchange of this kind.
pub(crate) fn words(kind: ExchangeKind, pattern: &str) -> Vec<Word<'_>> {
    match kind {
        ExchangeKind::Fanout => vec![Word::Many],
        ExchangeKind::Direct => split(pattern).map(Word::Literal).collect(),
        ExchangeKind::Topic => split(pattern)
            .map(|word| match word {
                "*" => Word::One,
                "#" => Word::Many,
                word => Word::Literal(word),
            })
            .collect(),
    }
}

/// Splits at dots, so "a..b" has an empty word; only the empty text has no words.
fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split('.').filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn topic_patterns_follow_amqp() {
        let cases = [
            ("a.b", "a.b", true),
            ("a.b", "a", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("*", "", false),
            ("*", "a", true),
            ("#", "", true),
            ("#", "a.b.c", true),
            ("a.#", "a", true),
            ("a.#", "a.b.c", true),
            ("a.#", "ab", false),
            ("#.a", "a", true),
            ("#.a", "b.a", true),
            ("#.a", "ba", false),
            ("a.#.b", "a.b", true),
            ("a.#.b", "a.x.y.b", true),
            ("a.#.b", "a", false),
            ("#.*", "", false),
            ("*.#", "a", true),
            ("#.#", "", true),
            ("*.*", ".", true),
            ("a.*.c", "a..c", true),
            ("", "", true),
            ("", "a", false),
            ("*.orange.*", "quick.orange.rabbit", true),
            ("lazy.#", "lazy.brown.fox", true),
            ("a*", "a*", true),
            ("a*", "ab", false),
        ];
        for (pattern, key, expected) in cases {
            let actual = matches(ExchangeKind::Topic, pattern, key);
            assert_eq!(actual, expected, "pattern {pattern:?}, key {key:?}");
        }
    }

    #[test]
    fn a_direct_exchange_compares_wildcards_literally() {
        assert!(matches(ExchangeKind::Direct, "#", "#"));
        assert!(!matches(ExchangeKind::Direct, "#", "a"));
        assert!(!matches(ExchangeKind::Direct, "*", "a"));
    }

    #[test]
    fn a_fanout_exchange_ignores_the_pattern() {
        assert!(matches(ExchangeKind::Fanout, "a", "b"));
        assert!(matches(ExchangeKind::Fanout, "", ""));
    }

    #[test]
    fn many_wildcards_do_not_take_exponential_time() {
        let pattern = "#.*.".repeat(60) + "end";
        let key = "a.".repeat(120) + "b";
        assert!(!matches(ExchangeKind::Topic, &pattern, &key));
    }

    /// The rules in their simplest form, too slow for use.
    pub(crate) fn naive(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern, key) {
            ([], []) => true,
            (["#", rest @ ..], _) => naive(rest, key) || (!key.is_empty() && naive(pattern, &key[1..])),
            (["*", rest @ ..], [_, tail @ ..]) => naive(rest, tail),
            ([word, rest @ ..], [first, tail @ ..]) => word == first && naive(rest, tail),
            _ => false,
        }
    }

    pub(crate) fn any_pattern() -> impl Strategy<Value = String> {
        let word = prop_oneof![Just("a"), Just("b"), Just("*"), Just("#"), Just("")];
        proptest::collection::vec(word, 0..6).prop_map(|words| words.join("."))
    }

    pub(crate) fn any_key() -> impl Strategy<Value = String> {
        let word = prop_oneof![Just("a"), Just("b"), Just("c"), Just("")];
        proptest::collection::vec(word, 0..6).prop_map(|words| words.join("."))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn matching_agrees_with_the_naive_matcher(pattern in any_pattern(), key in any_key()) {
            let pattern_words: Vec<_> = split(&pattern).collect();
            let key_words: Vec<_> = split(&key).collect();
            let expected = naive(&pattern_words, &key_words);
            prop_assert_eq!(matches(ExchangeKind::Topic, &pattern, &key), expected);
        }
    }
}
