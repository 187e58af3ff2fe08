//! SQL belongs in stores, next to the other SQL of its service, and in the crates that are about the database.

use super::Finding;
use super::source::{SourceTree, TextFile};
use super::tokens::TokenKind;

const ABOUT_THE_DATABASE: &[&str] =
    &["platform/db/", "platform/message-log/", "tools/bench/", "tools/testkit/", "tools/xtask/", "examples/recipes/"];

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in source.rust_files().filter(|file| !may_have_sql(file)) {
        let tokens = file.tokens();
        let tests_from = file.tests_from();
        let sql = tokens
            .iter()
            .filter(|token| token.kind == TokenKind::Text && token.line < tests_from && is_sql(token.text));
        findings
            .extend(sql.map(|token| Finding::new(&file.path, token.line, "move this SQL into the service's `store`")));
    }
    findings
}

fn may_have_sql(file: &TextFile) -> bool {
    let path = &file.path;
    path.contains("/store/")
        || path.ends_with("/store.rs")
        || path.contains("/migrations/")
        || ABOUT_THE_DATABASE.iter().any(|prefix| path.starts_with(prefix))
}

/// Returns whether the text is a statement, not a sentence or an HTTP method that begins with the same word.
fn is_sql(text: &str) -> bool {
    // A line may end in a backslash that continues the literal.
    let mut words =
        text.split(|character: char| character.is_whitespace() || character == '\\').filter(|word| !word.is_empty());
    match words.next() {
        Some("SELECT") => words.next().is_some(),
        Some("INSERT") => words.next() == Some("INTO"),
        Some("DELETE") => words.next() == Some("FROM"),
        Some("UPDATE") => words.any(|word| word == "SET"),
        Some("WITH") => words.any(|word| word == "AS"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_statements_are_distinguished_from_sentences() {
        assert!(is_sql("SELECT 1"));
        assert!(is_sql("\n  WITH due AS MATERIALIZED (SELECT 1) UPDATE t SET a = 1"));
        assert!(is_sql("UPDATE onceward.lease \\\n SET number = 1"));
        assert!(!is_sql("DELETE /orders/1"));
        assert!(!is_sql("Select one of these"));
        assert!(!is_sql("SELECT"));
    }

    #[test]
    fn sql_is_allowed_in_a_unit_test() {
        let text = "//! A.\n#[cfg(test)]\nmod tests {\n    const Q: &str = \"SELECT 1\";\n}\n";
        assert_eq!(check(&SourceTree::of(&[("platform/a/src/routes.rs", text)])), []);
    }

    #[test]
    fn sql_is_allowed_in_a_store_and_in_tests() {
        let text = "//! A.\nconst Q: &str = \"SELECT 1\";\n";
        let paths = [
            "platform/a/src/store/q.rs",
            "platform/a/src/store.rs",
            "platform/a/tests/it/q.rs",
            "platform/db/src/q.rs",
        ];
        assert_eq!(check(&SourceTree::of(&paths.map(|path| (path, text)))), []);
        assert_eq!(check(&SourceTree::of(&[("platform/a/src/routes.rs", text)]))[0].line, 2);
    }
}
