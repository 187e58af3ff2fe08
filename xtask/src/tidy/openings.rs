//! Every module opens by saying what it is.

use super::Finding;
use super::source::Source;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let silent = source.rust_files().filter(|file| !file.text.trim_start().starts_with("//!"));
    silent.map(|file| Finding::new(&file.path, 1, "open with `//!` and a line that says what this module is")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_begins_with_code_is_found() {
        let found = check(&Source::of(&[("crates/a/src/lib.rs", "//! A.\n"), ("crates/a/src/b.rs", "use std::fs;\n")]));
        assert_eq!(found.iter().map(|finding| finding.file.as_str()).collect::<Vec<_>>(), ["crates/a/src/b.rs"]);
    }
}
