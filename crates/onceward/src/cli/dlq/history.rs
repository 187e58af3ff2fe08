//! `dlq history`.

use onceward_db::Db;
use onceward_transport_postgres::triage::{self, Act};
use std::process::ExitCode;

/// Arguments of `dlq history`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only what was done to this letter
    #[arg(long, value_name = "ID")]
    letter: Option<i64>,
    /// At most this many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Go on before this act, the last of the page before
    #[arg(long, value_name = "ACT")]
    before: Option<i64>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(db: &Db, args: Args) -> anyhow::Result<ExitCode> {
    let acts = triage::history(db, args.letter, args.before, args.limit).await?;
    for act in &acts {
        if args.json {
            println!("{}", serde_json::to_string(act)?);
        } else {
            print(act);
        }
    }
    if let Some(last) = acts.last().filter(|_| acts.len() == args.limit as usize && !args.json) {
        eprintln!("there may be more: --before {}", last.id);
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print(act: &Act) {
    let tag = act.tag.as_deref().map(|tag| format!(" [{tag}]")).unwrap_or_default();
    println!(
        "{} {}{tag} letter {} of {} in {} by {}: {}",
        act.at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        act.act,
        act.letter,
        act.tenant,
        act.queue,
        act.actor.escape_debug(),
        act.why.escape_debug()
    );
}
