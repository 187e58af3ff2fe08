//! `slo list|rules`.

use crate::slo::{metrics_of, render_rules};
use crate::table::{TextTable, WidthArgs, below, number, text};
use onceward::{
    Platform,
    slo::{self, Slo},
};
use serde_json::json;
use std::process::ExitCode;

/// Commands about service-level objectives.
#[derive(Debug, clap::Subcommand)]
pub enum SloCommand {
    /// List the objectives and their alerts
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        width: WidthArgs,
    },
    /// Print the objectives as a Prometheus rules file
    Rules,
}

pub(super) fn run(platform: &Platform, command: SloCommand) -> ExitCode {
    let slos = slo::all(platform);
    match command {
        SloCommand::Rules => print!("{}", render_rules(&slos)),
        SloCommand::List { json: true, .. } => slos.iter().for_each(|(owner, slo)| {
            println!("{}", json!({"service": owner, "slo": slo, "figures": metrics_of(slo)}));
        }),
        SloCommand::List { json: false, width } => table(&slos).print(width, "there are no objectives"),
    }
    ExitCode::SUCCESS
}

/// Returns a table with one row per objective and its alerts in the rows below it.
fn table(slos: &[(&'static str, Slo)]) -> TextTable {
    let mut table = TextTable::new(&[
        text("objective or alert"),
        text("severity"),
        number("for s"),
        below("objective or expression"),
    ]);
    for (owner, slo) in slos {
        table.row([&format!("{owner}/{}", slo.name), "-", "-", slo.objective]);
        for alert in &slo.alerts {
            let severity = format!("{:?}", alert.severity).to_lowercase();
            table.row([&format!("  {}", alert.alert), severity.as_str(), &alert.for_s.to_string(), &alert.expr]);
        }
    }
    table
}
