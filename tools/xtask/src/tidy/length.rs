//! No file grows too long to be read in one sitting.

use super::Finding;
use super::source::SourceTree;

const MAX_LINES: usize = 400;

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let too_long = source.rust_files().filter_map(|file| {
        let count = file.text.lines().count();
        let what = format!("{count} lines; at most {MAX_LINES}: look for the second noun and give it a file");
        (count > MAX_LINES).then(|| Finding::new(&file.path, MAX_LINES + 1, what))
    });
    too_long.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_exactly_the_limit() {
        let (full, over) = ("\n".repeat(MAX_LINES), "\n".repeat(MAX_LINES + 1));
        let found = check(&SourceTree::of(&[("platform/a/full.rs", &full), ("platform/a/over.rs", &over)]));
        assert_eq!(found.iter().map(|finding| finding.file.as_str()).collect::<Vec<_>>(), ["platform/a/over.rs"]);
    }
}
