//! `dlq requeue` and `dlq quarantine`.

use super::{
    MISUSED, NOTHING, end,
    select::{OperatorArgs, Selected, Selection, said},
};
use crate::cli::{duration, outbox::RetryArgs};
use onceward_db::{Db, DbError};
use onceward_transport_postgres::{
    routes::OUTBOX,
    triage::{self, CHUNK, Fate, Filter, Operator, Refusal, Requeue, Status},
};
use serde_json::{Value, json};
use std::{process::ExitCode, time::Duration};

/// `outbox retry --dead` takes at most this many.
const MOST_OF_OUTBOX: u32 = 10_000;

/// Arguments of `dlq requeue`.
#[derive(Debug, clap::Args)]
pub struct RequeueArgs {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    operator: OperatorArgs,
    /// The first becomes due after this time; what else waits for its key waits with it
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    delay: Duration,
    /// Let them become due evenly over this time, instead of 50 a second
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    spread: Option<Duration>,
    /// Requeue quarantined letters, too; they must be given by id
    #[arg(long, conflicts_with = "all")]
    force: bool,
    #[command(flatten)]
    output: Output,
}

/// Arguments of `dlq quarantine`.
#[derive(Debug, clap::Args)]
pub struct QuarantineArgs {
    #[command(flatten)]
    selection: Selection,
    /// A word for the kind of trouble, such as poison
    #[arg(long, value_parser = said)]
    tag: String,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    output: Output,
}

/// Arguments that say what is printed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Output {
    /// Print what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object a letter
    #[arg(long)]
    json: bool,
}

pub(super) async fn requeue(db: &Db, args: RequeueArgs) -> anyhow::Result<ExitCode> {
    if let Err(misused) = args.selection.check() {
        return Ok(end(MISUSED, format!("error: {misused}")));
    }
    let options = Requeue { delay: args.delay, spread: args.spread, force: args.force };
    let selected = args.selection.find(db).await?;
    let mut report = Report::new("requeued", "requeue", args.output, &selected);
    if args.output.dry_run {
        report.add(&triage::plan(db, &selected.ids, &options).await?);
    } else {
        let operator = args.operator.operator();
        triage::requeue(db, &selected.ids, &options, &operator, |fates| report.add(&fates)).await.map_err(busy)?;
    }
    Ok(report.end())
}

pub(super) async fn quarantine(db: &Db, args: QuarantineArgs) -> anyhow::Result<ExitCode> {
    if let Err(misused) = args.selection.check() {
        return Ok(end(MISUSED, format!("error: {misused}")));
    }
    let selected = args.selection.find(db).await?;
    let mut report = Report::new("quarantined", "quarantine", args.output, &selected);
    let operator = args.operator.operator();
    let added = |fates: Vec<Fate>| report.add(&fates);
    triage::quarantine(db, &selected.ids, &args.tag, &operator, args.output.dry_run, added).await.map_err(busy)?;
    Ok(report.end())
}

/// `outbox retry --dead`.
pub(in crate::cli) async fn requeue_dead_of_outbox(db: &Db, args: RetryArgs) -> anyhow::Result<ExitCode> {
    let (Some(why), Some(name)) = (args.why, args.name) else {
        return Ok(end(MISUSED, "error: say who acts with --as NAME and why with --why TEXT"));
    };
    let filter =
        Filter { status: Some(Status::Dead), queue: Some(OUTBOX.to_owned()), event_id: args.id, ..Filter::default() };
    let ids = triage::in_order(db, &filter, MOST_OF_OUTBOX).await?;
    let selected = Selected { cut: ids.len() == MOST_OF_OUTBOX as usize, by_id: false, ids };
    let mut report = Report::new("requeued", "requeue", Output { dry_run: false, json: args.json }, &selected);
    let (options, operator) = (Requeue::default(), Operator { name, why });
    triage::requeue(db, &selected.ids, &options, &operator, |fates| report.add(&fates)).await.map_err(busy)?;
    Ok(report.end())
}

/// A worker may be in the middle of a long turn.
fn busy(error: DbError) -> anyhow::Error {
    if error.is_transient() && !error.is_unavailable() {
        return anyhow::anyhow!(
            "others are at work on the same messages ({error}); what was said to be done is done, run it again for the rest"
        );
    }
    error.into()
}

/// Says what becomes of each letter, and how it went in all.
struct Report {
    done_word: &'static str,
    word: &'static str,
    output: Output,
    asked: usize,
    by_id: bool,
    cut: bool,
    done: usize,
    refused: usize,
}

impl Report {
    fn new(done_word: &'static str, word: &'static str, output: Output, selected: &Selected) -> Self {
        let Selected { ids, by_id, cut } = selected;
        Self { done_word, word, output, asked: ids.len(), by_id: *by_id, cut: *cut, done: 0, refused: 0 }
    }

    fn add(&mut self, fates: &[Fate]) {
        for fate in fates {
            if fate.is_done() {
                self.done += 1;
            } else {
                self.refused += 1;
            }
            match (self.output.json, fate.refusal) {
                (true, _) => println!("{}", self.json(fate)),
                (false, None) => println!("{}", self.line(fate)),
                (false, Some(refusal)) => {
                    eprintln!("{} was not {}: {}", fate.id, self.done_word, advice(refusal, self.word))
                }
            }
        }
        if self.asked > CHUNK && !self.output.dry_run {
            eprintln!("{} of {}", self.done + self.refused, self.asked);
        }
    }

    fn json(&self, fate: &Fate) -> Value {
        let mut shown = json!(fate);
        shown["outcome"] = if fate.is_done() { self.done_word } else { "refused" }.into();
        shown["dryRun"] = self.output.dry_run.into();
        shown
    }

    fn line(&self, fate: &Fate) -> String {
        let text = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
        let when = match (fate.requeues, fate.wait_ms) {
            (None, _) => String::new(),
            (_, Some(0)) => ", due now".to_owned(),
            (_, Some(ms)) => format!(", due in {:.1} s", ms as f64 / 1000.0),
            (_, None) => format!(", behind others of key {}", text(&fate.ordering_key).escape_debug()),
        };
        let would = if self.output.dry_run { format!("would {}", self.word) } else { self.done_word.to_owned() };
        format!(
            "{would} {} ({} of {} in {}){when}",
            fate.id,
            text(&fate.event_type),
            text(&fate.tenant),
            text(&fate.queue)
        )
    }

    fn end(self) -> ExitCode {
        let Self { word, done_word, done, refused, .. } = self;
        if done == 0 {
            return end(NOTHING, format!("there was nothing to {word}"));
        }
        let rest = if refused > 0 { format!(", {refused} refused") } else { String::new() };
        match self.output.dry_run {
            true => eprintln!("{done} would be {done_word}{rest}; nothing was changed"),
            false => eprintln!("{done} {done_word}{rest}"),
        }
        if self.cut {
            eprintln!("there may be more than --limit allows; run it again for the rest");
        }
        ExitCode::from(u8::from(self.by_id && refused > 0))
    }
}

fn advice(refusal: Refusal, word: &str) -> String {
    match (refusal, word) {
        (Refusal::Quarantined, "requeue") => format!("{refusal}; give its id and --force if you mean it"),
        (Refusal::NoQueue, _) => format!("{refusal}; run `onceward migrate` with the service that declares it"),
        _ => refusal.to_string(),
    }
}
