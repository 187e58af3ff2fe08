//! Every problem code that a caller can see has its page under `docs/problems`.

use super::Finding;
use super::source::{Source, TextFile};
use super::tokens::Kind;

const TABLE: &str = "crates/web/src/problem/codes.rs";

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    match source.required(TABLE, "it is the table of problem codes") {
        Ok(table) => {
            let codes = literals_after(table, "code:");
            if codes.is_empty() {
                findings.push(Finding::new(TABLE, 1, "no `code: \"…\"` was found: keep the codes in this form"));
            }
            findings.extend(without_page(source, table, codes));
        }
        Err(finding) => findings.push(finding),
    }
    for file in source.rust_files().filter(|file| !file.path.starts_with("xtask/")) {
        findings.extend(without_page(source, file, literals_after(file, "Problem::new(")));
    }
    findings
}

fn without_page(source: &Source, file: &TextFile, codes: Vec<(usize, String)>) -> Vec<Finding> {
    let page = |code: &str| format!("docs/problems/{code}.md");
    let missing = codes.into_iter().filter(|(_, code)| source.file(&page(code)).is_none());
    missing.map(|(line, code)| Finding::new(&file.path, line, format!("write {} for `{code}`", page(&code)))).collect()
}

/// String literals outside tests that follow directly on this code.
fn literals_after(file: &TextFile, code: &str) -> Vec<(usize, String)> {
    let tokens = file.tokens();
    let tests_from = file.tests_from();
    let pairs = tokens.windows(2).filter(|pair| {
        pair[0].kind == Kind::Code && pair[1].kind == Kind::Text && pair[0].text.trim_end().ends_with(code)
    });
    pairs.filter(|pair| pair[1].line < tests_from).map(|pair| (pair[1].line, pair[1].text.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_table_and_of_the_code_want_pages() {
        let found = check(&Source::of(&[
            (TABLE, "//! Codes.\nProblemType { code: \"not-found\", status: 404 },\nX { code: \"no-page\" }"),
            ("examples/a/src/a.rs", "//! A.\nProblem::new(\"also-none\")"),
            ("docs/problems/not-found.md", "# Not found"),
        ]));
        let found: Vec<_> = found.iter().map(|finding| (finding.line, finding.what.as_str())).collect();
        assert_eq!(
            found,
            [
                (3, "write docs/problems/no-page.md for `no-page`"),
                (2, "write docs/problems/also-none.md for `also-none`"),
            ]
        );
    }
}
