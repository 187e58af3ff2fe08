//! Every path that a document names exists: a map with wrong paths is worse than none.

use super::Finding;
use super::source::{SourceTree, TextFile};

const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "README.md"];
/// Prefixes by which a path of this repository is recognised.
const ROOTS: &[&str] = &["platform/", "services/", "server/", "examples/", "tools/", "docs/"];

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in DOCUMENTS {
        match source.required(name, "a reader looks for it first") {
            Ok(document) => findings.extend(check_document(source, document)),
            Err(finding) => findings.push(finding),
        }
    }
    findings
}

fn check_document(source: &SourceTree, document: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (number, line) in document.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second piece between backticks is inside them.
        for span in line.split('`').skip(1).step_by(2) {
            if let Some(path) = as_path(span)
                && !source.exists(path)
            {
                findings.push(Finding::new(
                    &document.path,
                    number,
                    format!("`{span}` does not exist: correct the path"),
                ));
            }
        }
    }
    findings
}

/// Returns the span as a path of this repository, if it has the form of one.
fn as_path(span: &str) -> Option<&str> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-".contains(character);
    let path = span.split_once(':').map_or(span, |(path, line)| if line.parse::<u32>().is_ok() { path } else { span });
    let rooted = ROOTS.iter().any(|root| path.starts_with(root));
    let source = path.ends_with(".rs") && path.contains('/');
    let page = path.ends_with(".md") && !path.contains('/');
    (path.chars().all(plain) && (rooted || source || page)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_workspace_are_checked() {
        assert_eq!(as_path("platform/db/src/tx.rs:12"), Some("platform/db/src/tx.rs"));
        assert_eq!(as_path("messaging/src/relay.rs"), Some("messaging/src/relay.rs"));
        assert_eq!(as_path("CHANGELOG.md"), Some("CHANGELOG.md"));
        for other in
            ["platform/*/src", "application/json", "onceward up --data x", "/health/live", "docs/decisions/<n>.md"]
        {
            assert_eq!(as_path(other), None, "{other}");
        }
    }

    #[test]
    fn a_missing_path_is_reported_where_it_is_named() {
        let readme = ("README.md", "See `platform/a/` and\n`platform/b/src/lib.rs`.\n```\n`platform/c`\n```\n");
        let found = check(&SourceTree::of(&[readme, ("ARCHITECTURE.md", ""), ("platform/a/src/lib.rs", "//! A.")]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_missing_document_is_a_finding() {
        assert_eq!(check(&SourceTree::of(&[("README.md", "")]))[0].file, "ARCHITECTURE.md");
    }
}
