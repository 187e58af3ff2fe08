//! The default configuration file is the reference: every setting in it has a comment.

use super::Finding;
use super::source::SourceTree;

const DEFAULTS: &str = "platform/onceward/config/default.toml";

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let file = match source.required(DEFAULTS, "it holds every setting with its default") {
        Ok(file) => file,
        Err(finding) => return vec![finding],
    };
    let mut findings = Vec::new();
    let mut previous = "";
    let mut open_brackets = 0_isize;
    for (number, line) in file.lines() {
        let line = line.trim();
        let inside_value = open_brackets > 0;
        if let Some((key, _)) = line.split_once('=').filter(|_| !inside_value && !line.starts_with('#'))
            && !previous.starts_with('#')
        {
            let what = format!("say in a comment line above it what `{}` does", key.trim());
            findings.push(Finding::new(DEFAULTS, number, what));
        }
        // Headers are balanced, so only a list that spans several lines stays open.
        open_brackets += depth(line);
        previous = line;
    }
    findings
}

fn depth(line: &str) -> isize {
    if line.starts_with('#') {
        return 0;
    }
    let count = |bracket: char| isize::try_from(line.matches(bracket).count()).unwrap_or(0);
    count('[') - count(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_without_a_comment_above_it_is_found() {
        let text = "[web]\n# Where to listen.\nlisten = \"x\"\nport = 1\n\n# Several.\nlist = [\n  \"a=b\",\n]\n# c [\nx = 1\ny = 1\n";
        let found: Vec<usize> =
            check(&SourceTree::of(&[(DEFAULTS, text)])).iter().map(|finding| finding.line).collect();
        assert_eq!(found, [4, 12]);
    }
}
