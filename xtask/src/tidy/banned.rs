//! Nothing unfinished is committed, and no test or warning is switched off.

use super::Finding;
use super::source::Source;
use super::tokens::Kind;

const IN_CODE: &[(&str, &str)] = &[
    ("todo!", "write it"),
    ("unimplemented!", "write it"),
    ("dbg!", "remove it"),
    ("#[ignore", "make the test run or delete it"),
    ("allow(dead_code)", "delete what nobody uses"),
];

const IN_COMMENTS: &[(&str, &str)] = &[("FIXME", "fix it, or open an issue"), ("TODO", "do it, or open an issue")];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in source.rust_files() {
        for token in file.tokens() {
            let banned = match token.kind {
                Kind::Code => IN_CODE,
                Kind::Comment => IN_COMMENTS,
                Kind::Text => continue,
            };
            for (number, line) in token.lines() {
                let found = banned.iter().filter(|(word, _)| line.contains(word));
                findings.extend(
                    found.map(|(word, advice)| Finding::new(&file.path, number, format!("`{word}`: {advice}"))),
                );
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_where_they_have_a_meaning() {
        let text = "//! A.\nfn a() { todo!() }\n// FIXME later\nconst S: &str = \"todo! FIXME\";\n";
        let found: Vec<usize> = check(&Source::of(&[("crates/a/src/a.rs", text)])).iter().map(|f| f.line).collect();
        assert_eq!(found, [2, 3]);
    }
}
