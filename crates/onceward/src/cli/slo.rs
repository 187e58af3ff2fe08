//! `slo list|rules`.

use crate::{Platform, slo};
use serde_json::json;
use std::process::ExitCode;

/// What can be done with service-level objectives.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List what is promised, and the alerts that say when it does not hold
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Print them as a rules file for Prometheus
    Rules,
}

pub(super) fn run(platform: &Platform, command: Command) -> ExitCode {
    let slos = slo::all(platform);
    match command {
        Command::Rules => print!("{}", slo::rules::rules(&slos)),
        Command::List { json: true } => slos.iter().for_each(|(owner, slo)| {
            println!("{}", json!({"service": owner, "slo": slo, "figures": slo.figures()}));
        }),
        Command::List { json: false } => slos.iter().for_each(|(owner, slo)| {
            println!("{:<24} {}", format!("{owner}/{}", slo.name), slo.objective);
            for alert in &slo.alerts {
                let severity = format!("{:?}", alert.severity).to_lowercase();
                println!("    {severity:<8} {:<28} {} (for {} s)", alert.alert, alert.expr, alert.for_s);
            }
        }),
    }
    ExitCode::SUCCESS
}
