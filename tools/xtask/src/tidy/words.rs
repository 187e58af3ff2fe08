//! Words and types that were replaced stay out: private words in documentation, and std's locks.

use super::Finding;
use super::source::{SourceTree, TextFile};
use super::tokens::TokenKind;

/// The first words of doc comments that have a plain equivalent.
const OPENINGS: &[(&str, &str)] = &[
    ("Gives", "write \"Returns\""),
    ("Tells", "write \"Reports\" or \"Returns\""),
    ("Says", "write \"Returns\" or \"Reports\""),
    ("Whoever", "name who it is"),
];

/// Phrases that mean nothing to a reader of the repository.
const PHRASES: &[(&str, &str)] = &[("the specification", "it is not in the repository: write what is meant")];

const STD_LOCKS: &[&str] = &["std::sync::Mutex", "std::sync::RwLock"];

/// Folders of crates that use only std.
const STD_ONLY: &[&str] = &["platform/local-postgres/", "tools/local-brokers/", "tools/xtask/"];

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    // xtask contains the words themselves.
    let files = source.files.iter().filter(|file| !file.path.starts_with("tools/xtask/"));
    files.flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let mut findings = check_lines(file);
    if file.path.ends_with(".rs") && !STD_ONLY.iter().any(|folder| file.path.starts_with(folder)) {
        findings.extend(check_locks(file));
    }
    findings
}

fn check_lines(file: &TextFile) -> Vec<Finding> {
    let extension = file.path.rsplit('.').next().unwrap_or_default();
    let markers: &[&str] = match extension {
        "rs" => &["///", "//!"],
        "sql" => &["--"],
        "md" | "toml" => &[],
        _ => return Vec::new(),
    };
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let mut find = |word: &str, advice: &str| {
            findings.push(Finding::new(&file.path, number, format!("\"{word}\": {advice}")));
        };
        let comment = markers.iter().find_map(|marker| line.trim_start().strip_prefix(marker)).unwrap_or_default();
        let opening = comment.split_whitespace().next().unwrap_or_default();
        OPENINGS.iter().filter(|(word, _)| *word == opening).for_each(|(word, advice)| find(word, advice));
        let lower = line.to_lowercase();
        PHRASES.iter().filter(|(phrase, _)| lower.contains(phrase)).for_each(|(phrase, advice)| find(phrase, advice));
    }
    findings
}

/// Finds std's locks in paths and in imports, nested ones included.
fn check_locks(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for token in file.tokens().into_iter().filter(|token| token.kind == TokenKind::Code) {
        for (line, path) in paths(token.text) {
            let named = STD_LOCKS.iter().find(|lock| path == **lock || path.starts_with(&format!("{lock}::")));
            findings.extend(named.map(|lock| {
                let what = format!("`{lock}`: use `parking_lot`, which is not poisoned by a panic");
                Finding::new(&file.path, token.line + line, what)
            }));
        }
    }
    findings
}

/// Returns every path in the code, with imports such as `std::{sync::{Arc, Mutex}}` expanded, and its line from 0.
fn paths(code: &str) -> Vec<(usize, String)> {
    let (mut paths, mut prefixes, mut current, mut line) = (Vec::new(), Vec::new(), String::new(), 0);
    for character in code.chars() {
        match character {
            '{' if current.ends_with("::") => prefixes.push(std::mem::take(&mut current)),
            '{' => {
                // A block: no import continues into it.
                prefixes.clear();
                current.clear();
            }
            letter if letter.is_alphanumeric() || letter == '_' || letter == ':' => current.push(letter),
            _ => {
                if !current.is_empty() {
                    paths.push((line, prefixes.concat() + &current));
                    current.clear();
                }
                match character {
                    '}' => drop(prefixes.pop()),
                    ';' => prefixes.clear(),
                    '\n' => line += 1,
                    _ => {}
                }
            }
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<usize> {
        check(&SourceTree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn replaced_words_are_found_at_the_beginning_of_comments() {
        let text = "//! Says so.\n/// Gives one.\n/// It gives one. Tells\nfn a() {} // Gives\n";
        assert_eq!(findings("platform/a/src/a.rs", text), [1, 2]);
        assert_eq!(findings("platform/a/migrations/a.sql", "-- Whoever asks\nSELECT 1; -- Tells\n"), [1]);
        assert_eq!(findings("docs/a.md", "Gives one.\n"), []);
    }

    #[test]
    fn the_specification_is_found_in_every_kind_of_text() {
        for path in ["README.md", "a/b.toml", "a/b.sql", "a/src/b.rs"] {
            assert_eq!(findings(path, "x\n# As The specification says\n"), [2], "{path}");
        }
        assert_eq!(findings("a/b.json", "the specification"), []);
    }

    #[test]
    fn locks_of_std_are_found_in_paths_and_imports() {
        assert_eq!(findings("a/src/b.rs", "use std::sync::Mutex;\n"), [1]);
        assert_eq!(findings("a/src/b.rs", "use std::{\n    fs,\n    sync::{Arc, RwLock},\n};\n"), [3]);
        assert_eq!(findings("a/src/b.rs", "fn a() { let b = std::sync::Mutex::new(1); }\n"), [1]);
        assert_eq!(findings("a/src/b.rs", "use std::{sync::Arc};\nuse tokio::sync::{Mutex};\n"), []);
        assert_eq!(findings("a/src/b.rs", "use parking_lot::Mutex;\nmod b { use std::sync::MutexGuard; }\n"), []);
        assert_eq!(findings("a/src/b.rs", "// std::sync::Mutex\n"), []);
    }

    #[test]
    fn crates_without_dependencies_may_use_locks_of_std() {
        assert_eq!(findings("tools/local-brokers/src/a.rs", "use std::sync::Mutex;\n"), []);
    }
}
