//! Shell blocks in the documents run when pasted: they call nothing that a plain machine lacks, stop nothing by name,
//! and omit nothing.

use super::Finding;
use super::source::{SourceTree, TextFile};

const BANNED: &[(&str, &str)] = &[
    (
        "uuidgen",
        "not every machine has it: let the command create the id, or read it from /proc/sys/kernel/random/uuid",
    ),
    ("pkill", "it ends processes of others with the same name: keep the process id in a variable and `kill` that"),
    ("…", "write the whole command: a line with an ellipsis cannot be pasted"),
];

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let documents = source
        .files
        .iter()
        .filter(|file| file.path == "README.md" || file.path.starts_with("docs/") && file.path.ends_with(".md"));
    documents.flat_map(findings_of).collect()
}

fn findings_of(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fence: Option<bool> = None;
    for (number, line) in file.lines() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            fence = match fence {
                None => Some(info.trim() == "sh"),
                Some(_) => None,
            };
            continue;
        }
        if fence != Some(true) {
            continue;
        }
        let code = without_comment(line);
        let found = BANNED.iter().filter(|(word, _)| code.contains(word));
        findings.extend(found.map(|(word, advice)| Finding::new(&file.path, number, format!("`{word}`: {advice}"))));
    }
    findings
}

/// Returns a shell line without its comment, which starts at the beginning of a word.
fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.split(" #").next().unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_in_shell_blocks_count() {
        let text = "uuidgen and … in words\n```sh\n# an id, like 0b…\ncurl -d $(uuidgen)  # or …\ncurl …\n```\n```json\n{\"a\": \"…\"}\n```\n\
                    - in a list:\n  ```sh\n  pkill onceward\n  kill $PID\n  ```\n";
        let files = [("README.md", text), ("docs/a/b.md", text), ("docs/a.txt", text), ("platform/a/notes.md", text)];
        let found = check(&SourceTree::of(&files));
        let found: Vec<(&str, usize)> = found.iter().map(|finding| (finding.file.as_str(), finding.line)).collect();
        let lines = [4, 5, 12];
        let expected = ["README.md", "docs/a/b.md"].into_iter().flat_map(|file| lines.map(|line| (file, line)));
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
}
