//! One type name has one meaning in the whole workspace, so that a name can be understood without its module path.
//!
//! Private types and types of tests are exempt, because their names are read only beside their declaration.

use std::collections::BTreeMap;

use super::Finding;
use super::source::{SourceTree, TextFile};
use super::tokens::TokenKind;

/// Names that may be declared more than once, each with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("Args", "clap: each command's module names its own arguments"),
    ("Command", "clap: each command's module names its own subcommands"),
    ("CommandState", "documents and lending publish the same contract, not the same code"),
    ("StatusUpdate", "documents and lending publish the same contract, not the same code"),
    ("Settings", "each service names its own section of the configuration"),
];

const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

type Places<'a> = Vec<(&'a str, usize)>;

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    check_except(source, ALLOWED)
}

fn check_except(source: &SourceTree, allowed: &[(&str, &str)]) -> Vec<Finding> {
    let mut declarations: BTreeMap<&str, Places<'_>> = BTreeMap::new();
    for file in source.rust_files().filter(|file| file.path.contains("/src/")) {
        for (line, name) in declared_types(file) {
            declarations.entry(name).or_default().push((&file.path, line));
        }
    }
    let repeated = |name: &str| declarations.get(name).is_some_and(|places| places.len() > 1);
    let stale = allowed.iter().filter(|(name, _)| !repeated(name)).map(|(name, _)| {
        let what = format!("`{name}` is declared at most once: remove it from ALLOWED");
        Finding::new("tools/xtask/src/tidy/type_names.rs", 1, what)
    });
    let is_allowed = |name: &str| allowed.iter().any(|(known, _)| *known == name);
    let ambiguous = declarations.iter().filter(|(name, places)| places.len() > 1 && !is_allowed(name));
    ambiguous.map(|(name, places)| finding(name, places)).chain(stale).collect()
}

fn finding(name: &str, places: &Places<'_>) -> Finding {
    let (file, line) = places[0];
    let others: Vec<String> = places[1..].iter().map(|(file, line)| format!("{file}:{line}")).collect();
    let what = format!(
        "the type name `{name}` has another meaning in {}: give each its own name, or use one type",
        others.join(" and ")
    );
    Finding::new(file, line, what)
}

/// Returns the types that more than their own module can name, with their lines.
fn declared_types(file: &TextFile) -> Vec<(usize, &str)> {
    let tests_from = file.tests_from();
    let mut types = Vec::new();
    for token in file.tokens().into_iter().filter(|token| token.kind == TokenKind::Code) {
        let lines = token.lines().filter(|(number, _)| *number < tests_from);
        types.extend(lines.filter_map(|(number, line)| Some((number, declared_type(line)?))));
    }
    types
}

/// Returns the name that a line such as `pub(crate) struct Name<T> {` declares. rustfmt keeps declarations on one line.
fn declared_type(line: &str) -> Option<&str> {
    let visible = line.trim_start().strip_prefix("pub")?;
    let rest = match visible.strip_prefix('(') {
        Some(restricted) => restricted.split_once(')')?.1,
        None => visible,
    };
    let (keyword, name) = rest.strip_prefix(' ')?.split_once(' ')?;
    let end = name.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(name.len());
    (KEYWORDS.contains(&keyword) && end > 0).then_some(&name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)], allowed: &[(&str, &str)]) -> Vec<String> {
        check_except(&SourceTree::of(files), allowed).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_name_with_two_meanings_is_found_with_both_places() {
        let files = [
            ("platform/a/src/lib.rs", "//! A.\n\npub struct Report {\n"),
            ("services/b/src/report.rs", "//! B.\npub(crate) enum Report<T> {\n"),
        ];
        let found = check_except(&SourceTree::of(&files), &[]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].file.as_str(), found[0].line), ("platform/a/src/lib.rs", 3));
        assert!(
            found[0].what.contains("`Report`") && found[0].what.contains("services/b/src/report.rs:2"),
            "{found:?}"
        );
    }

    #[test]
    fn private_types_and_types_of_tests_are_exempt() {
        let unit_test = "//! C.\n#[cfg(test)]\nmod tests {\n    pub struct Report;\n}\n";
        let files = [
            ("platform/a/src/lib.rs", "pub struct Report;\n"),
            ("platform/b/src/lib.rs", "struct Report;\n"),
            ("platform/b/tests/it/main.rs", "pub struct Report;\n"),
            ("platform/c/src/lib.rs", unit_test),
        ];
        assert_eq!(findings(&files, &[]), [""; 0]);
    }

    #[test]
    fn declarations_in_strings_and_comments_do_not_count() {
        let text = "/// `pub struct Report;`\npub struct Other;\nconst S: &str = \"\npub struct Report;\n\";\n";
        assert_eq!(findings(&[("a/src/lib.rs", "pub struct Report;\n"), ("b/src/lib.rs", text)], &[]), [""; 0]);
    }

    #[test]
    fn an_allowed_name_may_repeat_and_an_unused_permission_is_found() {
        let files = [("a/src/lib.rs", "pub struct Args;\n"), ("b/src/lib.rs", "pub struct Args;\n")];
        assert_eq!(findings(&files, &[("Args", "clap")]), [""; 0]);
        assert_eq!(findings(&files[..1], &[("Args", "clap")]).len(), 1);
    }

    #[test]
    fn every_form_of_declaration_is_read() {
        assert_eq!(declared_type("pub trait Broker: Send {"), Some("Broker"));
        assert_eq!(declared_type("    pub(in crate::a) type Kafka = Server<K>;"), Some("Kafka"));
        assert_eq!(declared_type("pub fn struct_of() {"), None);
        assert_eq!(declared_type("pub struct $name;"), None);
    }
}
