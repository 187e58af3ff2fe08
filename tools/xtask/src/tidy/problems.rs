//! Every problem code that a caller can see has its page in the crate that declares it, and every page has a code.
//!
//! What a page says is checked with the routes (`platform/web/src/routes/check.rs`), which know the titles.

use super::Finding;
use super::source::{SourceTree, TextFile};
use super::tokens::TokenKind;
use std::collections::BTreeSet;

const TABLE: &str = "platform/web/src/problem/codes.rs";
/// The forms in which a code is declared: as a field, and as the first argument.
const DECLARATIONS: &[&str] = &["code:", "ProblemCode::new("];

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut expected_pages = BTreeSet::new();
    for file in source.rust_files().filter(|file| file.text.contains("ProblemCode")) {
        let Some((package, _)) = file.path.split_once("/src/") else { continue };
        for (line, code) in DECLARATIONS.iter().flat_map(|form| literals_after(file, form)) {
            let page = format!("{package}/problems/{code}.md");
            if source.file(&page).is_none() {
                findings.push(Finding::new(&file.path, line, format!("write {page} for `{code}`")));
            }
            expected_pages.insert(page);
        }
    }
    if !expected_pages.iter().any(|page| page.starts_with("platform/web/")) {
        findings.push(Finding::new(TABLE, 1, "no `code: \"…\"` was found: keep the codes in this form"));
    }
    let orphans = source.files.iter().filter(|file| is_page(&file.path) && !expected_pages.contains(&file.path));
    findings.extend(orphans.map(|file| Finding::new(&file.path, 1, "no problem code has this page: delete it")));
    findings
}

fn is_page(path: &str) -> bool {
    path.ends_with(".md") && path.contains("/problems/")
}

/// Returns the string literals outside tests that directly follow this code.
fn literals_after(file: &TextFile, code: &str) -> Vec<(usize, String)> {
    let tokens = file.tokens();
    let tests_from = file.tests_from();
    let pairs = tokens.windows(2).filter(|pair| {
        pair[0].kind == TokenKind::Code && pair[1].kind == TokenKind::Text && pair[0].text.trim_end().ends_with(code)
    });
    pairs.filter(|pair| pair[1].line < tests_from).map(|pair| (pair[1].line, pair[1].text.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_needs_a_page_in_its_package_and_every_page_a_code() {
        let found = check(&SourceTree::of(&[
            (TABLE, "//! Codes.\nProblemCode { code: \"not-found\", status: 404 },\nX { code: \"no-page\" }"),
            ("services/a/src/error.rs", "//! A.\nProblemCode::new(\"not-found\")"),
            ("services/a/src/other.rs", "//! Not a problem.\nJson { code: \"x\" }"),
            ("platform/web/problems/not-found.md", "# Not found"),
            ("services/a/problems/old.md", "# Old"),
        ]));
        let mut found: Vec<_> = found.iter().map(|finding| (finding.line, finding.what.as_str())).collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                (1, "no problem code has this page: delete it"),
                (2, "write services/a/problems/not-found.md for `not-found`"),
                (3, "write platform/web/problems/no-page.md for `no-page`"),
            ]
        );
    }
}
