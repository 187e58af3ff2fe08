//! `cargo xtask tidy`: our own rules, each a small function that returns its findings. All of them always run.

mod banned;
mod broker_words;
mod code_map;
mod layers;
mod length;
mod lints;
mod lock_classes;
mod openings;
mod paths;
mod problems;
mod settings;
mod shell_blocks;
mod sleeps;
mod source;
mod sql;
mod tokens;
mod type_names;
mod words;

use std::process::ExitCode;

use crate::error::XtaskError;
use crate::workspace::Workspace;
use source::SourceTree;

/// A violation to be fixed.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    file: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(file: impl Into<String>, line: usize, what: impl Into<String>) -> Finding {
        Finding { file: file.into(), line, what: what.into() }
    }
}

type Check = fn(&SourceTree) -> Vec<Finding>;

const CHECKS: &[(&str, Check)] = &[
    ("dependency direction", layers::check),
    ("lints", lints::check),
    ("file length", length::check),
    ("module openings", openings::check),
    ("unfinished work", banned::check),
    ("SQL outside stores", sql::check),
    ("broker words", broker_words::check),
    ("sleeping tests", sleeps::check),
    ("paths in documents", paths::check),
    ("code map", code_map::check),
    ("shell blocks in documents", shell_blocks::check),
    ("problem pages", problems::check),
    ("settings without a comment", settings::check),
    ("classes of advisory locks", lock_classes::check),
    ("type names", type_names::check),
    ("replaced words", words::check),
];

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, XtaskError> {
    if let Some(arg) = args.first() {
        return Err(XtaskError::Usage(format!("`tidy` takes no arguments, and was given `{arg}`")));
    }
    let source = SourceTree::read(&workspace.root)?;
    let mut count = 0;
    for (name, check) in CHECKS {
        let mut findings = check(&source);
        findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        for finding in &findings {
            println!("{}:{}: {} [{name}]", finding.file, finding.line, finding.what);
        }
        count += findings.len();
    }
    if count == 0 {
        println!("tidy: {} checks over {} Rust files found nothing", CHECKS.len(), source.rust_files().count());
        return Ok(ExitCode::SUCCESS);
    }
    println!("tidy: {count} findings to fix");
    Ok(ExitCode::FAILURE)
}
