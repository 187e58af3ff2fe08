//! `dlq list`.

use super::select::{DeadLetterFilters, StatusArg};
use crate::table::{TextTable, WidthArgs, below, fixed, number, text};
use onceward_db::Db;
use onceward_message_log::triage::{self, DeadLetterFilter, DeadLetterSummary};
use std::process::ExitCode;

/// Arguments of `dlq list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    filters: DeadLetterFilters,
    /// Only dead letters with this status
    #[arg(long, value_enum, default_value = "dead")]
    status: StatusArg,
    /// Only dead letters that hold their key, whatever their status
    #[arg(long, conflicts_with = "status")]
    holding: bool,
    /// The maximum number of dead letters to list
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Continue after this dead letter, the last of the previous page
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

pub(super) async fn run(db: &Db, args: Args) -> anyhow::Result<ExitCode> {
    let filter = match args.holding {
        true => DeadLetterFilter { holds_key: Some(true), ..args.filters.with_status(None) },
        false => args.filters.with_status(args.status.status()),
    };
    let letters = triage::list(db, &filter, args.after, args.limit).await?;
    if args.json {
        for letter in &letters {
            println!("{}", serde_json::to_string(letter)?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    table(&letters).print(args.width, "there are no matching dead letters");
    if let Some(last) = letters.last().filter(|_| letters.len() == args.limit as usize) {
        eprintln!("there may be more; continue with --after {}", last.id);
    }
    Ok(ExitCode::SUCCESS)
}

fn table(letters: &[DeadLetterSummary]) -> TextTable {
    let mut table = TextTable::new(&[
        number("id"),
        fixed("when"),
        text("queue"),
        text("tenant"),
        text("type"),
        text("reason"),
        number("attempts"),
        below("correlation id"),
        below("last error"),
    ]);
    for letter in letters {
        let mut reason = letter.reason.clone();
        if let Some(tag) = &letter.tag {
            reason.push_str(&format!(" [{tag}]"));
        }
        if letter.holds_key {
            reason.push_str(", holds its key");
        }
        table.row([
            letter.id.to_string(),
            letter.dead_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            letter.queue.clone(),
            letter.tenant.clone(),
            letter.event_type.clone(),
            reason,
            letter.attempts.to_string(),
            letter.correlation_id.clone(),
            letter.last_error.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}
