//! ARCHITECTURE.md's code map shows every crate once, in the order of the layers, and no crate that does not exist.

use std::collections::BTreeSet;

use super::Finding;
use super::layers::layer_of;
use super::source::{SourceTree, TextFile};

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## The code map";

/// One line of the picture: its number, and the crates in it.
type Row = (usize, Vec<String>);

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let document = match source.required(DOCUMENT, "it has the map of the code") {
        Ok(document) => document,
        Err(finding) => return vec![finding],
    };
    let Some((line, rows)) = picture(document) else {
        let what = format!("no fenced block follows \"{HEADING}\": draw the crates there, each by its path");
        return vec![Finding::new(DOCUMENT, 1, what)];
    };
    let mut findings = check_crates(source, line, &rows);
    findings.extend(check_order(source, &rows));
    findings
}

fn check_crates(source: &SourceTree, line: usize, rows: &[Row]) -> Vec<Finding> {
    let shown: Vec<&String> = rows.iter().flat_map(|(_, crates)| crates).collect();
    let folders: Vec<&str> = source.manifests().filter_map(|file| file.path.strip_suffix("/Cargo.toml")).collect();
    let mut findings = Vec::new();
    for folder in &folders {
        match shown.iter().filter(|shown| shown == &folder).count() {
            1 => {}
            0 => findings.push(Finding::new(DOCUMENT, line, format!("the code map does not show {folder}"))),
            _ => findings.push(Finding::new(DOCUMENT, line, format!("the code map shows {folder} more than once"))),
        }
    }
    let gone = shown.iter().filter(|shown| !folders.contains(&shown.as_str()));
    findings.extend(
        gone.map(|gone| Finding::new(DOCUMENT, line, format!("the code map shows {gone}, which is not a crate"))),
    );
    findings
}

/// Each row must show crates of one layer of `layers.rs`, and no row may be above a row of a higher layer.
fn check_order(source: &SourceTree, rows: &[Row]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut above = usize::MAX;
    for (line, crates) in rows {
        for folder in crates {
            let layer = source.file(&format!("{folder}/Cargo.toml")).and_then(layer_of);
            // Another check reports packages without a layer.
            let Some(layer) = layer else { continue };
            if layer > above {
                let what = format!("{folder} (layer {layer}) is shown below a crate of layer {above}: move it up");
                findings.push(Finding::new(DOCUMENT, *line, what));
            }
            above = above.min(layer);
        }
        let layers = crates.iter().filter_map(|folder| source.file(&format!("{folder}/Cargo.toml")).and_then(layer_of));
        if layers.collect::<BTreeSet<_>>().len() > 1 {
            findings.push(Finding::new(
                DOCUMENT,
                *line,
                "crates of different layers share a line: give each layer its own",
            ));
        }
    }
    findings
}

/// Returns the line on which the code map's block begins, and its rows.
fn picture(document: &TextFile) -> Option<(usize, Vec<Row>)> {
    let mut lines = document.lines().skip_while(|(_, text)| *text != HEADING);
    let (begin, _) = lines.find(|(_, text)| text.starts_with("```"))?;
    let drawn = lines.take_while(|(_, text)| !text.starts_with("```"));
    // Two or more spaces separate the paths from their descriptions.
    let crates =
        |text: &str| text.split("  ").next().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    Some((begin, drawn.map(|(number, text)| (number, crates(text))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(map: &str) -> Vec<String> {
        let text = format!("# A\n{HEADING}\nWords.\n```\n{map}\n```\n");
        let files = [(DOCUMENT, text.as_str()), ("platform/a/Cargo.toml", ""), ("server/Cargo.toml", "")];
        check(&SourceTree::of(&files)).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_map_that_shows_every_crate_once_is_right() {
        assert_eq!(findings("server   the program\nplatform/a  what services use"), [""; 0]);
    }

    #[test]
    fn missing_repeated_and_vanished_crates_are_found() {
        assert_eq!(findings("server  the program"), ["the code map does not show platform/a"]);
        assert_eq!(findings("server platform/a server  all"), ["the code map shows server more than once"]);
        assert_eq!(
            findings("server platform/a platform/b  all"),
            ["the code map shows platform/b, which is not a crate"]
        );
    }

    #[test]
    fn rows_must_follow_the_layers() {
        let found = |map: &str| {
            let text = format!("{HEADING}\n```\n{map}\n```\n");
            let package = |name: &str| format!("[package]\nname = \"{name}\"\n");
            let (web, db) = (package("onceward-web"), package("onceward-db"));
            let files = [(DOCUMENT, text.as_str()), ("platform/web/Cargo.toml", &web), ("platform/db/Cargo.toml", &db)];
            check(&SourceTree::of(&files)).into_iter().map(|finding| (finding.line, finding.what)).collect::<Vec<_>>()
        };
        assert_eq!(found("platform/web  the edge\nplatform/db  the pool"), []);
        assert_eq!(found("platform/db  the pool\nplatform/web  the edge")[0].0, 4);
        assert!(found("platform/web platform/db  both")[0].1.contains("share a line"));
    }

    #[test]
    fn a_document_without_a_map_is_a_finding() {
        assert_eq!(check(&SourceTree::of(&[(DOCUMENT, "# A\n")])).len(), 1);
    }
}
