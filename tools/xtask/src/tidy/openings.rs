//! Every module begins with a `//!` comment that describes it.

use super::Finding;
use super::source::SourceTree;

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let silent = source.rust_files().filter(|file| !file.text.trim_start().starts_with("//!"));
    silent.map(|file| Finding::new(&file.path, 1, "open with `//!` and a line that describes this module")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_begins_with_code_is_found() {
        let found =
            check(&SourceTree::of(&[("platform/a/src/lib.rs", "//! A.\n"), ("platform/a/src/b.rs", "use std::fs;\n")]));
        assert_eq!(found.iter().map(|finding| finding.file.as_str()).collect::<Vec<_>>(), ["platform/a/src/b.rs"]);
    }
}
