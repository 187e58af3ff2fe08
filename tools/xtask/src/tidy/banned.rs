//! No unfinished code is committed, and no test or warning is disabled.

use super::Finding;
use super::source::SourceTree;
use super::tokens::TokenKind;

const IN_CODE: &[(&str, &str)] = &[
    ("todo!", "write it"),
    ("unimplemented!", "write it"),
    ("dbg!", "remove it"),
    ("#[ignore", "make the test run or delete it"),
    ("allow(dead_code)", "delete unused code"),
];

const IN_COMMENTS: &[(&str, &str)] = &[("FIXME", "fix it, or open an issue"), ("TODO", "do it, or open an issue")];

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in source.rust_files() {
        for token in file.tokens() {
            let banned = match token.kind {
                TokenKind::Code => IN_CODE,
                TokenKind::Comment => IN_COMMENTS,
                TokenKind::Text => continue,
            };
            for (number, line) in token.lines() {
                let found = banned.iter().filter(|(word, _)| line.contains(word));
                findings.extend(
                    found.map(|(word, advice)| Finding::new(&file.path, number, format!("`{word}`: {advice}"))),
                );
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_code_and_comments_but_not_in_strings() {
        let text = "//! A.\nfn a() { todo!() }\n// FIXME later\nconst S: &str = \"todo! FIXME\";\n";
        let found: Vec<usize> =
            check(&SourceTree::of(&[("platform/a/src/a.rs", text)])).iter().map(|f| f.line).collect();
        assert_eq!(found, [2, 3]);
    }
}
