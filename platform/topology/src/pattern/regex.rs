//! Translates patterns to regular expressions, so that PostgreSQL can route with its `~` operator.

use super::{Word, words};
use crate::ExchangeKind;

/// Returns an anchored POSIX expression that matches exactly the keys that [`matches`](super::matches) accepts.
pub fn to_regex(kind: ExchangeKind, pattern: &str) -> String {
    let words = words(kind, pattern);
    if !words.contains(&Word::Many) {
        return match words[..] {
            // The only word of a key is never empty; a word next to others may be.
            [Word::One] => "^[^.]+$".to_owned(),
            _ => format!("^{}$", fixed_words(&words)),
        };
    }
    let fixed: Vec<Word<'_>> = words.iter().copied().filter(|word| *word != Word::Many).collect();
    match fixed[..] {
        [] => "^.*$".to_owned(),
        [Word::One] => "^.+$".to_owned(),
        [Word::Literal("")] => hash_and_empty_word(&words).to_owned(),
        _ => runs_with_hashes(&words),
    }
}

/// Translates runs of fixed words with `#` before, between or after them. The dots belong to the `#`, because it may
/// match nothing.
fn runs_with_hashes(words: &[Word<'_>]) -> String {
    let mut out = String::from("^");
    let mut first = true;
    let mut skipped = false;
    for group in words.chunk_by(|a, b| (*a == Word::Many) == (*b == Word::Many)) {
        if group[0] == Word::Many {
            skipped = true;
            continue;
        }
        out.push_str(match (first, skipped) {
            (true, false) => "",
            (true, true) => "(.*\\.)?",
            (false, _) => "\\.(.*\\.)?",
        });
        out.push_str(&fixed_words(group));
        (first, skipped) = (false, false);
    }
    out.push_str(if skipped { "(\\..*)?$" } else { "$" });
    out
}

/// Translates `#` next to one empty word. The general form would also match the empty key, which has no words.
fn hash_and_empty_word(words: &[Word<'_>]) -> &'static str {
    let (before, after) = (words.first() == Some(&Word::Many), words.last() == Some(&Word::Many));
    match (before, after) {
        (true, true) => "^(\\..*|.*\\.|.*\\.\\..*)$",
        (true, false) => "^.*\\.$",
        _ => "^\\..*$",
    }
}

fn fixed_words(words: &[Word<'_>]) -> String {
    let translate = |word: &Word<'_>| match word {
        Word::Literal(text) => escape(text),
        _ => "[^.]*".to_owned(),
    };
    words.iter().map(translate).collect::<Vec<_>>().join("\\.")
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\^$.[](){}*+?|".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{
        matches,
        tests::{any_key, any_pattern},
    };
    use proptest::prelude::*;
    use regex::RegexBuilder;

    fn accepts(kind: ExchangeKind, pattern: &str, key: &str) -> bool {
        // In PostgreSQL a dot also matches a line break.
        let regex = RegexBuilder::new(&to_regex(kind, pattern)).dot_matches_new_line(true).build();
        regex.unwrap().is_match(key)
    }

    #[test]
    fn expressions_are_short_and_anchored() {
        let topic = |pattern| to_regex(ExchangeKind::Topic, pattern);
        assert_eq!(topic("a.b"), r"^a\.b$");
        assert_eq!(topic("a.#"), r"^a(\..*)?$");
        assert_eq!(topic("#.a"), r"^(.*\.)?a$");
        assert_eq!(topic("a.#.b"), r"^a\.(.*\.)?b$");
        assert_eq!(topic("#"), "^.*$");
        assert_eq!(topic("a.*.c"), r"^a\.[^.]*\.c$");
        assert_eq!(topic(""), "^$");
        assert_eq!(to_regex(ExchangeKind::Direct, "#"), "^#$");
        assert_eq!(to_regex(ExchangeKind::Direct, "a*(b)"), r"^a\*\(b\)$");
        assert_eq!(to_regex(ExchangeKind::Fanout, "a"), "^.*$");
    }

    #[test]
    fn a_hash_matches_no_word_too() {
        for (pattern, key) in [("a.#", "a"), ("a.#", "a.b"), ("#", ""), ("#.a", "a"), ("a.#.b", "a.b")] {
            assert!(accepts(ExchangeKind::Topic, pattern, key), "{pattern:?} {key:?}");
        }
        assert!(!accepts(ExchangeKind::Topic, "a.#", "ab"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn the_expression_agrees_with_the_matcher(pattern in any_pattern(), key in any_key()) {
            let kind = ExchangeKind::Topic;
            prop_assert_eq!(accepts(kind, &pattern, &key), matches(kind, &pattern, &key), "{}", to_regex(kind, &pattern));
        }

        #[test]
        fn special_characters_are_escaped(text in "\\PC{0,8}", other in "\\PC{0,8}") {
            let kind = ExchangeKind::Direct;
            prop_assert!(accepts(kind, &text, &text));
            prop_assert_eq!(accepts(kind, &text, &other), text == other);
        }
    }
}
