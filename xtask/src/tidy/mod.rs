//! `cargo xtask tidy`: our own rules, each a small function that returns what it found. All of them always run.

mod banned;
mod broker_words;
mod layers;
mod length;
mod lints;
mod openings;
mod paths;
mod problems;
mod settings;
mod sleeps;
mod source;
mod sql;
mod tokens;

use std::process::ExitCode;

use crate::failure::Failure;
use crate::workspace::Workspace;
use source::Source;

/// Something to put right.
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

type Check = fn(&Source) -> Vec<Finding>;

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
    ("problem pages", problems::check),
    ("settings without a comment", settings::check),
];

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, Failure> {
    if let Some(arg) = args.first() {
        return Err(Failure::Usage(format!("`tidy` takes no arguments, and was given `{arg}`")));
    }
    let source = Source::read(&workspace.root)?;
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
    println!("tidy: {count} to put right");
    Ok(ExitCode::FAILURE)
}
