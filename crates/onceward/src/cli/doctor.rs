//! `doctor`.

use super::duration;
use crate::{
    Config, Platform,
    doctor::{self, Limits, Report, Severity},
};
use std::{process::ExitCode, time::Duration};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What stands still for longer is a finding: a transaction, a lane, a schedule
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration::parse)]
    longer_than: Duration,
    /// How long each check may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Exit code 0: all is well; 1: there are findings.
pub(super) async fn run(platform: &Platform, config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let usual = Limits::default();
    let limits = Limits { long: args.longer_than, check: args.timeout, all: usual.all.max(args.timeout) };
    let report = doctor::examine(platform, config, limits).await;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        in_words(&report);
    }
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn in_words(report: &Report) {
    for finding in &report.findings {
        let severity = match finding.severity {
            Severity::Critical => "critical",
            Severity::Warning => "warning ",
        };
        println!("{severity}  {}: {}", finding.check, finding.what);
        println!("          {}", finding.advice);
    }
    match report.findings.len() {
        0 => println!("{} checks found nothing", report.checks.len()),
        1 => println!("1 finding of {} checks", report.checks.len()),
        count => println!("{count} findings of {} checks", report.checks.len()),
    }
}
