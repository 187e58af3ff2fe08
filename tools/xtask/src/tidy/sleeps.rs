//! Tests do not sleep: a test that sleeps is slow on a good day and wrong on a bad one.

use super::Finding;
use super::source::SourceTree;
use super::tokens::TokenKind;

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in source.rust_files() {
        let tests_from = file.tests_from();
        for token in file.tokens().iter().filter(|token| token.kind == TokenKind::Code) {
            let sleeping = token.lines().filter(|(number, line)| *number >= tests_from && line.contains("sleep("));
            findings.extend(sleeping.map(|(number, _)| {
                Finding::new(&file.path, number, "wait for a signal (with a timeout) instead of sleeping")
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_is_found_in_tests_and_allowed_elsewhere() {
        let text = "//! A.\n\nfn a() { sleep(A_SECOND) }\n";
        let found = check(&SourceTree::of(&[("platform/a/tests/it/a.rs", text), ("platform/a/src/a.rs", text)]));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].file.as_str(), found[0].line), ("platform/a/tests/it/a.rs", 3));
    }
}
