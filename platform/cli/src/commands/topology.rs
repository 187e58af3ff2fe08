//! `topology print|declare|check`.

use super::{duration, operator::OperatorArgs};
use crate::table::{TextTable, WidthArgs, fixed, text};
use crate::topology_report::{self, TopologyReport};
use onceward::{Config, Platform};
use std::{process::ExitCode, time::Duration};

/// Commands about the topology.
#[derive(Debug, clap::Subcommand)]
pub enum TopologyCommand {
    /// Print every exchange, queue and binding
    Print {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        width: WidthArgs,
    },
    /// Create what is missing in PostgreSQL and on the external bus
    ///
    /// Deletes no exchange, queue or message. Exit status: 0 if everything is as declared; 1 if something differs and cannot be
    /// changed, in which case PostgreSQL is left unchanged; 2 if PostgreSQL or the bus does not respond.
    Declare(DeclareArgs),
    /// Show where PostgreSQL and the external bus differ from the declaration
    ///
    /// Changes nothing. Exit status: 0 if nothing differs, 1 if something does, 2 if PostgreSQL or the bus does not respond. What
    /// could not be compared is listed; `equal` in the JSON is then null.
    Check(TopologyCompareArgs),
}

/// Arguments of commands that compare PostgreSQL and the bus with the declaration.
#[derive(Debug, clap::Args)]
pub struct TopologyCompareArgs {
    /// How long PostgreSQL and the bus may each take to respond
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

/// Arguments of `topology declare`.
#[derive(Debug, clap::Args)]
pub struct DeclareArgs {
    #[command(flatten)]
    compare: TopologyCompareArgs,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) async fn run(platform: &Platform, config: &Config, command: TopologyCommand) -> anyhow::Result<ExitCode> {
    match command {
        TopologyCommand::Print { json, width } => {
            print(platform, json, width);
            Ok(ExitCode::SUCCESS)
        }
        TopologyCommand::Declare(DeclareArgs { compare, operator }) => {
            super::database(config)?;
            let operator = operator.operator("the topology was declared");
            let report = topology_report::declare(platform, config, compare.timeout, &operator).await?;
            Ok(print_report(&report, &compare, "there was nothing to create"))
        }
        TopologyCommand::Check(compare) => {
            super::database(config)?;
            let report = topology_report::check(platform, config, compare.timeout).await?;
            let equal = match report.unchecked.is_empty() {
                true => "everything is as declared".to_owned(),
                false => format!("everything that could be checked is as declared; {}", report.unchecked.join("; ")),
            };
            Ok(print_report(&report, &compare, &equal))
        }
    }
}

fn print(platform: &Platform, json: bool, width: WidthArgs) {
    let topology = platform.topology();
    if json {
        print!("{}", topology.snapshot());
        return;
    }
    let mut table = TextTable::new(&[fixed("kind"), text("name"), text("properties")]);
    for exchange in &topology.exchanges {
        table.row(["exchange", &exchange.name, &kind_name(&exchange.kind)]);
    }
    for queue in &topology.queues {
        let dead_letters = queue.dead_letter.as_ref().map(|letter| format!(", dead letters to {}", letter.exchange));
        let properties =
            format!("{}, {} shards{}", kind_name(&queue.kind), queue.shards, dead_letters.unwrap_or_default());
        table.row(["queue", &queue.name, &properties]);
    }
    for binding in &topology.bindings {
        table.row(["binding", &binding.queue, &format!("{} <- {}", binding.exchange, binding.pattern)]);
    }
    table.print(width, "nothing is declared");
}

/// Returns the JSON name of a kind, with spaces.
fn kind_name(kind: &impl serde::Serialize) -> String {
    let name = serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_owned));
    name.unwrap_or_default().replace(['_', '-'], " ")
}

fn print_report(report: &TopologyReport, compare: &TopologyCompareArgs, nothing: &str) -> ExitCode {
    if compare.json {
        println!(
            "{}",
            serde_json::json!({"equal": report.equal(), "made": report.changes, "differences": report.differences,
                               "unchecked": report.unchecked, "unreachable": report.unreachable})
        );
    } else {
        print_text(report, compare.width, nothing);
    }
    match report {
        TopologyReport { unreachable: Some(_), .. } => ExitCode::from(2),
        report if report.is_equal() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn print_text(report: &TopologyReport, width: WidthArgs, nothing: &str) {
    for change in &report.changes {
        width.print_wrapped("", &format!("{}: created {}", change.on, change.what));
    }
    for difference in &report.differences {
        width.print_wrapped("", &format!("{}: {} differs", difference.on, difference.what));
        width.print_wrapped("    declared  ", &difference.declared);
        width.print_wrapped("    found     ", &difference.found);
        width.print_wrapped("    advice    ", &difference.advice);
    }
    let nothing = Some(nothing).filter(|_| report.changes.is_empty() && report.is_equal());
    for unchecked in &report.unchecked {
        if nothing.is_none_or(|text| !text.contains(unchecked)) {
            width.eprint_wrapped("not checked: ", unchecked);
        }
    }
    if let Some(unreachable) = &report.unreachable {
        width.eprint_wrapped("error: ", unreachable);
    }
    if let Some(nothing) = nothing {
        width.print_wrapped("", nothing);
    }
}
