//! `dlq show`.

use super::{NOTHING, end, history};
use onceward_db::Db;
use onceward_transport_postgres::triage::{self, Act, Letter};
use serde_json::json;
use std::process::ExitCode;

/// A letter has few acts: it is collected, quarantined and requeued once each.
const ACTS: u32 = 100;

/// Arguments of `dlq show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The letter's id
    id: i64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(db: &Db, args: Args) -> anyhow::Result<ExitCode> {
    let Some(letter) = triage::letters(db, &[args.id]).await?.pop() else {
        return Ok(end(NOTHING, format!("there is no dead letter {}", args.id)));
    };
    let acts = triage::history(db, Some(args.id), None, ACTS).await?;
    if args.json {
        let mut shown = serde_json::to_value(&letter)?;
        shown["history"] = json!(acts);
        println!("{shown}");
    } else {
        print(&letter, &acts)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(letter: &Letter, acts: &[Act]) -> anyhow::Result<()> {
    let Letter { summary, .. } = letter;
    let none = || "-".to_owned();
    let status = match &summary.tag {
        Some(tag) => format!("{} [{tag}]", summary.status),
        None => summary.status.clone(),
    };
    let lines = [
        ("dead letter", summary.id.to_string()),
        ("status", status),
        ("died", summary.dead_at.to_string()),
        ("queue", summary.queue.clone()),
        ("consumer", letter.consumer.clone()),
        ("tenant", summary.tenant.clone()),
        ("type", summary.event_type.clone()),
        ("event id", summary.event_id.to_string()),
        ("ordering key", summary.ordering_key.clone().unwrap_or_else(none)),
        ("correlation id", summary.correlation_id.clone()),
        ("reason", summary.reason.clone()),
        ("attempts", summary.attempts.to_string()),
        ("requeued before", letter.requeues.to_string()),
        ("first failed", letter.first_failed_at.map_or_else(none, |at| at.to_string())),
        ("first error", letter.first_error.clone().unwrap_or_else(none)),
        ("last error", summary.last_error.clone().unwrap_or_else(none)),
        ("copies go to", letter.dead_letter_exchange.clone().unwrap_or_else(none)),
    ];
    for (name, value) in lines {
        println!("{name:<16} {}", value.escape_debug());
    }
    println!("\nmessage\n{}", serde_json::to_string_pretty(&letter.message)?);
    println!("\nhistory");
    if acts.is_empty() {
        println!("nothing was done to it yet");
    }
    acts.iter().for_each(history::print);
    Ok(())
}
