//! `dlq history`.

use crate::table::{TextTable, WidthArgs, below, fixed, number, text};
use onceward_db::Db;
use onceward_message_log::triage::{self, TriageAction};
use std::process::ExitCode;

/// Arguments of `dlq history`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only acts on this dead letter
    #[arg(long, value_name = "ID")]
    letter: Option<i64>,
    /// The maximum number of acts to list
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Continue before this act, the last of the previous page
    #[arg(long, value_name = "ACT")]
    before: Option<i64>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

pub(super) async fn run(db: &Db, args: Args) -> anyhow::Result<ExitCode> {
    let acts = triage::history(db, args.letter, args.before, args.limit).await?;
    if args.json {
        for act in &acts {
            println!("{}", serde_json::to_string(act)?);
        }
    } else {
        table(&acts).print(args.width, "no operator has acted on a dead letter yet");
    }
    if let Some(last) = acts.last().filter(|_| acts.len() == args.limit as usize && !args.json) {
        eprintln!("there may be more; continue with --before {}", last.id);
    }
    Ok(ExitCode::SUCCESS)
}

fn table(acts: &[TriageAction]) -> TextTable {
    let mut table = TextTable::new(&[
        number("act"),
        fixed("when"),
        text("action"),
        number("letter"),
        text("tenant"),
        text("queue"),
        text("by"),
        below("reason"),
    ]);
    for act in acts {
        table.row([
            act.id.to_string(),
            when(act),
            action(act),
            act.letter.to_string(),
            act.tenant.clone(),
            act.queue.clone(),
            act.actor.clone(),
            act.why.clone(),
        ]);
    }
    table
}

/// Returns an act in one line.
pub(super) fn line(act: &TriageAction) -> String {
    format!("{} {} by {}: {}", when(act), action(act), act.actor, act.why)
}

fn when(act: &TriageAction) -> String {
    act.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn action(act: &TriageAction) -> String {
    let tag = act.tag.as_deref().map(|tag| format!(" [{tag}]")).unwrap_or_default();
    format!("{}{tag}", act.act)
}
