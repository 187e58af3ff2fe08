//! Relations between two patterns over all possible keys, for the topology check.

use super::Word;

/// Returns whether some key matches both.
pub(crate) fn overlaps(a: &[Word<'_>], b: &[Word<'_>]) -> bool {
    let compatible = |x: Word<'_>, y: Word<'_>| x == y || x == Word::One || y == Word::One;
    relate(a, b, true, compatible)
}

/// Returns whether every key that matches `inner` matches `outer`.
///
/// `true` is certain. `false` may be wrong if `#` and `*` are adjacent (`*.#` matches everything that `#.a` does),
/// which no topology needs.
pub(crate) fn covers(outer: &[Word<'_>], inner: &[Word<'_>]) -> bool {
    let compatible = |x: Word<'_>, y: Word<'_>| x == y || x == Word::One;
    relate(outer, inner, false, compatible)
}

/// Compares both patterns from their ends. A `#` in `a` matches any words of `b`; one in `b` matches words of `a` only
/// if `both_ways`.
fn relate<'a>(
    a: &[Word<'a>],
    b: &[Word<'a>],
    both_ways: bool,
    compatible: impl Fn(Word<'a>, Word<'a>) -> bool,
) -> bool {
    // holds[i][j]: the relation holds for a without its first i words and b without its first j.
    let mut holds = vec![vec![false; b.len() + 2]; a.len() + 2];
    for i in (0..=a.len()).rev() {
        for j in (0..=b.len()).rev() {
            holds[i][j] = match (a.get(i), b.get(j)) {
                (None, None) => true,
                (Some(Word::Many), _) => holds[i + 1][j] || holds[i][j + 1],
                (_, Some(Word::Many)) => both_ways && (holds[i][j + 1] || holds[i + 1][j]),
                (Some(x), Some(y)) => compatible(*x, *y) && holds[i + 1][j + 1],
                _ => false,
            };
        }
    }
    holds[0][0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ExchangeKind::Topic,
        pattern::{matches, words},
    };
    use proptest::prelude::*;

    fn covers_text(outer: &str, inner: &str) -> bool {
        covers(&words(Topic, outer), &words(Topic, inner))
    }

    #[test]
    fn a_hash_covers_everything_and_only_a_hash_covers_a_hash() {
        assert!(covers_text("#", "a.#.b"));
        assert!(covers_text("a.#", "a.b.*"));
        assert!(covers_text("a.*", "a.b"));
        assert!(!covers_text("a.*", "a.#"));
        assert!(!covers_text("a.b", "a.*"));
        assert!(!covers_text("a.#", "#"));
    }

    fn short_pattern() -> impl Strategy<Value = String> {
        let word = prop_oneof![Just("a"), Just("b"), Just("*"), Just("#")];
        proptest::collection::vec(word, 0..4).prop_map(|words| words.join("."))
    }

    /// Every key of up to six words over three letters: two patterns of three words cannot need more.
    fn all_keys() -> Vec<String> {
        let mut keys = vec![vec![]];
        let mut from = 0;
        for _ in 0..6 {
            let until = keys.len();
            for i in from..until {
                for word in ["a", "b", "c"] {
                    let mut longer = keys[i].clone();
                    longer.push(word);
                    keys.push(longer);
                }
            }
            from = until;
        }
        keys.iter().map(|words| words.join(".")).collect()
    }

    proptest! {
        #[test]
        fn patterns_overlap_if_and_only_if_a_key_matches_both(a in short_pattern(), b in short_pattern()) {
            let witness = all_keys().iter().any(|key| matches(Topic, &a, key) && matches(Topic, &b, key));
            prop_assert_eq!(overlaps(&words(Topic, &a), &words(Topic, &b)), witness);
        }

        #[test]
        fn a_covered_pattern_matches_no_other_keys(outer in short_pattern(), inner in short_pattern()) {
            if covers_text(&outer, &inner) {
                let uncovered = all_keys().into_iter().find(|key| matches(Topic, &inner, key) && !matches(Topic, &outer, key));
                prop_assert_eq!(uncovered, None);
            }
        }
    }
}
