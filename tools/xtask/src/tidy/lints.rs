//! Unsafe code is forbidden once, for the workspace, and every package inherits the lints.

use super::Finding;
use super::source::{SourceTree, TextFile};

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    match source.required("Cargo.toml", "the workspace needs it") {
        Ok(root) if !root.text.contains("unsafe_code = \"forbid\"") => {
            findings.push(Finding::new(&root.path, 1, "add `unsafe_code = \"forbid\"` to [workspace.lints.rust]"));
        }
        Ok(_) => {}
        Err(finding) => findings.push(finding),
    }
    // A package with a workspace of its own shows what a service outside this one looks like.
    let is_member = |file: &&TextFile| !file.text.contains("\n[workspace]");
    for file in source.manifests().filter(is_member) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        if !lines.windows(2).any(|pair| pair == ["[lints]", "workspace = true"]) {
            findings.push(Finding::new(&file.path, 1, "add `[lints]` with `workspace = true`"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_the_workspaces_lints_is_found() {
        let root = ("Cargo.toml", "unsafe_code = \"forbid\"");
        let good = ("platform/a/Cargo.toml", "[lints]\nworkspace = true\n");
        let bad = ("platform/b/Cargo.toml", "[package]\n");
        let found = check(&SourceTree::of(&[root, good, bad]));
        assert_eq!(found.iter().map(|finding| finding.file.as_str()).collect::<Vec<_>>(), ["platform/b/Cargo.toml"]);
    }
}
