//! `dlq list`.

use super::select::{Filters, StatusArg};
use onceward_db::Db;
use onceward_transport_postgres::triage::{self, Summary};
use std::process::ExitCode;

/// So much of an error fits into a line.
const SHOWN_ERROR: usize = 60;

/// Arguments of `dlq list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    filters: Filters,
    /// What has become of them
    #[arg(long, value_enum, default_value = "dead")]
    status: StatusArg,
    /// At most this many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Go on behind this letter, the last of the page before
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(db: &Db, args: Args) -> anyhow::Result<ExitCode> {
    let filter = args.filters.of(args.status.status());
    let letters = triage::list(db, &filter, args.after, args.limit).await?;
    if args.json {
        for letter in &letters {
            println!("{}", serde_json::to_string(letter)?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{:>8} {:<20} {:<28} {:<16} {:<28} {:<18} {:>5} {:<36} last error",
        "id", "when", "queue", "tenant", "type", "reason", "tries", "correlation id"
    );
    letters.iter().for_each(print);
    if let Some(last) = letters.last().filter(|_| letters.len() == args.limit as usize) {
        eprintln!("there may be more: --after {}", last.id);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(letter: &Summary) {
    let Summary { id, queue, tenant, event_type, correlation_id, attempts, .. } = letter;
    let when = letter.dead_at.strftime("%Y-%m-%dT%H:%M:%SZ");
    let reason = match &letter.tag {
        Some(tag) => format!("{} [{tag}]", letter.reason),
        None => letter.reason.clone(),
    };
    let error = shortened(letter.last_error.as_deref().unwrap_or("-"));
    println!(
        "{id:>8} {when:<20} {queue:<28} {tenant:<16} {event_type:<28} {reason:<18} {attempts:>5} {correlation_id:<36} {error}"
    );
}

/// The beginning, in one line.
fn shortened(error: &str) -> String {
    let line: String = error.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    match line.char_indices().nth(SHOWN_ERROR) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_shown_in_one_line() {
        assert_eq!(shortened("a\nb\u{1b}[31m"), "a b [31m");
        let long = shortened(&"é".repeat(SHOWN_ERROR + 1));
        assert_eq!(long.chars().count(), SHOWN_ERROR + 1);
        assert!(long.ends_with('…'));
    }
}
