//! Finds the metrics that an expression reads.
//!
//! Not a parser of PromQL: a name that is neither a function, a keyword nor a label is a metric. That is enough to find
//! a rule that reads a metric which no process exports, and that therefore never fires.

use std::collections::BTreeSet;

const KEYWORDS: &[&str] = &[
    "sum",
    "min",
    "max",
    "avg",
    "count",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "and",
    "or",
    "unless",
    "offset",
    "bool",
    "inf",
    "nan",
];
/// After these keywords, the parentheses contain labels.
const LABELS_FOLLOW: &[&str] = &["by", "without", "on", "ignoring", "group_left", "group_right"];
const HISTOGRAM_SUFFIXES: &[&str] = &["_bucket", "_sum", "_count"];

/// Returns the metrics in `expr`, as their exporter names them. Recorded metrics, with a colon, are left out.
pub fn metric_names(expr: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = expr;
    let mut last_word = "";
    while let Some(character) = rest.chars().next() {
        if is_name(character) {
            let (word, after) = rest.split_at(rest.find(|other| !is_name(other)).unwrap_or(rest.len()));
            let called = after.trim_start().starts_with('(');
            let is_metric = !character.is_ascii_digit() && !called && !KEYWORDS.contains(&word) && !word.contains(':');
            if is_metric {
                found.insert(exported(word).to_owned());
            }
            (last_word, rest) = (word, after);
            continue;
        }
        let skipped = match character {
            '{' => closing(rest, '}'),
            '[' => closing(rest, ']'),
            '"' => closing(&rest[1..], '"') + 1,
            '(' if LABELS_FOLLOW.contains(&last_word) => closing(rest, ')'),
            other => other.len_utf8(),
        };
        if !character.is_whitespace() {
            last_word = "";
        }
        rest = &rest[skipped..];
    }
    found
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_:.".contains(character)
}

fn closing(text: &str, end: char) -> usize {
    text.find(end).map_or(text.len(), |at| at + 1)
}

fn exported(name: &str) -> &str {
    HISTOGRAM_SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_labels_ranges_and_recordings_are_not_metrics() {
        let expr = r#"sum by (queue) (rate(dead_total{reason!="a b"}[5m])) / on (queue) group_left (le) lag_seconds > 0.5e3
            unless our:own:rule and histogram_quantile(0.95, sum without(le) (rate(took_ms_bucket[10m])))"#;
        let found: Vec<String> = metric_names(expr).into_iter().collect();
        assert_eq!(found, ["dead_total", "lag_seconds", "took_ms"]);
    }
}
