//! Unsafe code is forbidden once, for the workspace, and every package takes part.

use super::Finding;
use super::source::Source;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    match source.required("Cargo.toml", "the workspace needs it") {
        Ok(root) if !root.text.contains("unsafe_code = \"forbid\"") => {
            findings.push(Finding::new(&root.path, 1, "add `unsafe_code = \"forbid\"` to [workspace.lints.rust]"));
        }
        Ok(_) => {}
        Err(finding) => findings.push(finding),
    }
    for file in source.manifests() {
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
        let good = ("crates/a/Cargo.toml", "[lints]\nworkspace = true\n");
        let bad = ("crates/b/Cargo.toml", "[package]\n");
        let found = check(&Source::of(&[root, good, bad]));
        assert_eq!(found.iter().map(|finding| finding.file.as_str()).collect::<Vec<_>>(), ["crates/b/Cargo.toml"]);
    }
}
