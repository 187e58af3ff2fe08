//! `doctor`.

use super::duration;
use crate::doctor::{self, DoctorCheck, DoctorLimits, DoctorReport, FindingSeverity};
use crate::table::{TextTable, WidthArgs, below, fixed};
use onceward::{Config, Platform};
use std::{process::ExitCode, time::Duration};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Report a transaction, a lane or a schedule that makes no progress for longer than this
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration::parse)]
    longer_than: Duration,
    /// How long each check may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

/// Returns exit code 0 if there are no findings, 1 if there are.
pub(super) async fn run(platform: &Platform, config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let defaults = DoctorLimits::default();
    let limits = DoctorLimits {
        stalled_after: args.longer_than,
        per_check: args.timeout,
        total: defaults.total.max(args.timeout),
    };
    let report = doctor::run_checks(platform, config, limits).await;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print_text(&report, args.width);
    }
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_text(report: &DoctorReport, width: WidthArgs) {
    for finding in &report.findings {
        let severity = match finding.severity {
            FindingSeverity::Critical => "critical",
            FindingSeverity::Warning => "warning ",
        };
        width.print_wrapped(&format!("{severity}  "), &format!("{}: {}", finding.check, finding.what));
        width.print_wrapped("          ", &finding.advice);
    }
    if !report.findings.is_empty() {
        println!();
    }
    let mut table = TextTable::new(&[fixed("check"), fixed("result"), below("expected state")]);
    for DoctorCheck { name, about } in &report.checks {
        let found = match report.findings.iter().filter(|finding| finding.check == *name).count() {
            0 => "ok".to_owned(),
            1 => "1 finding".to_owned(),
            count => format!("{count} findings"),
        };
        table.row([name, found.as_str(), about]);
    }
    table.print(width, "no checks were run");
    match report.findings.len() {
        0 => println!("{} checks, no findings", report.checks.len()),
        1 => println!("{} checks, 1 finding", report.checks.len()),
        count => println!("{} checks, {count} findings", report.checks.len()),
    }
}
