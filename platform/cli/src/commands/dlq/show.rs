//! `dlq show`.

use super::{EXIT_NOTHING_TO_DO, exit_with, history};
use crate::table::WidthArgs;
use jiff::Timestamp;
use onceward_db::Db;
use onceward_message_log::triage::{self, DeadLetterDetails, TriageAction, WaitingFollower};
use serde_json::json;
use std::process::ExitCode;

/// A dead letter has few acts: it is collected, quarantined, released and requeued once each.
const ACTS_MAX: u32 = 100;
/// How many of the messages that wait behind a dead letter are listed.
const FOLLOWERS_MAX: u32 = 5;

/// Arguments of `dlq show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The id of the dead letter
    id: i64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

pub(super) async fn run(db: &Db, args: Args) -> anyhow::Result<ExitCode> {
    let Some(letter) = triage::details(db, &[args.id]).await?.pop() else {
        return Ok(exit_with(EXIT_NOTHING_TO_DO, format!("there is no dead letter {}", args.id)));
    };
    let acts = triage::history(db, Some(args.id), None, ACTS_MAX).await?;
    let followers = triage::followers(db, args.id, FOLLOWERS_MAX).await?;
    if args.json {
        let mut shown = serde_json::to_value(&letter)?;
        shown["history"] = json!(acts);
        if let Some((count, first)) = &followers {
            (shown["followers"], shown["firstFollowers"]) = (json!(count), json!(first));
        }
        println!("{shown}");
    } else {
        print(&letter, &acts, followers, args.width)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(
    letter: &DeadLetterDetails,
    acts: &[TriageAction],
    followers: Option<(i64, Vec<WaitingFollower>)>,
    width: WidthArgs,
) -> anyhow::Result<()> {
    let DeadLetterDetails { summary, .. } = letter;
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
        ("holds its key", holds_key(summary.dead_at, followers.as_ref().map(|(count, _)| *count))),
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
        width.print_wrapped(&format!("{name:<16} "), &printable(&value));
    }
    if let Some((count, first)) = followers.filter(|(count, _)| *count > 0) {
        println!("\nwaiting behind it");
        for one in &first {
            let event_type = one.event_type.as_deref().unwrap_or("-");
            width.print_wrapped("", &printable(&format!("{}  {event_type}  {}", one.written_at, one.event_id)));
        }
        let more = count.saturating_sub(i64::try_from(first.len()).unwrap_or(0));
        if more > 0 {
            println!("and {more} more");
        }
    }
    println!("\nfailed attempts");
    let attempts = letter.attempt_log.as_array().map(Vec::as_slice).unwrap_or_default();
    if attempts.is_empty() {
        println!("none are known");
    }
    for attempt in attempts {
        let field = |name: &str| attempt[name].as_str().unwrap_or_default().escape_debug().to_string();
        width.print_wrapped(
            &format!("{:>3}  ", attempt["attempt"].to_string()),
            &format!("{}  {}", field("at"), field("error")),
        );
    }
    println!("\nmessage\n{}", serde_json::to_string_pretty(&letter.message)?);
    println!("\nhistory");
    if acts.is_empty() {
        println!("no operator has acted on it yet");
    }
    acts.iter().for_each(|act| width.print_wrapped("", &printable(&history::line(act))));
    Ok(())
}

/// Returns whether a letter holds its key, since when, and how many messages wait.
fn holds_key(since: Timestamp, followers: Option<i64>) -> String {
    match followers {
        None => "no".to_owned(),
        Some(count) => {
            let waiting = if count == 1 { "1 message waits".to_owned() } else { format!("{count} messages wait") };
            format!("since {since}; {waiting} until it is requeued or released")
        }
    }
}

/// Escapes control characters, because a terminal would interpret them.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            control if control.is_control() => shown.extend(control.escape_default()),
            other => shown.push(other),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_quotes_are_not() {
        assert_eq!(printable("\"quantity\" is requiréd\n\u{1b}[31m"), "\"quantity\" is requiréd\\n\\u{1b}[31m");
    }
}
