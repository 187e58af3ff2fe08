//! `dlq requeue`, `dlq quarantine` and `dlq release`, and `outbox retry --dead`.

use super::{
    EXIT_NOTHING_TO_DO, EXIT_USAGE, exit_with,
    select::{LetterSelection, SelectedLetters},
};
use crate::{
    commands::{
        duration,
        operator::{OperatorWithReasonArgs, non_empty_text},
        outbox::RetryArgs,
    },
    table::WidthArgs,
};
use onceward_db::{Db, DbError};
use onceward_message_log::{
    routes::OUTBOX,
    triage::{self, CHUNK, DeadLetterFilter, DeadLetterStatus, Operator, RequeueOptions, TriageOutcome, TriageRefusal},
};
use serde_json::{Value, json};
use std::{process::ExitCode, time::Duration};

/// `outbox retry --dead` requeues at most this many.
const OUTBOX_REQUEUE_MAX: u32 = 10_000;

/// Arguments of `dlq requeue`.
#[derive(Debug, clap::Args)]
pub struct RequeueArgs {
    #[command(flatten)]
    selection: LetterSelection,
    #[command(flatten)]
    operator: OperatorWithReasonArgs,
    /// The delay of the first message; other messages of its key wait as well
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    delay: Duration,
    /// Make the messages due evenly over this time, instead of 50 per second
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    spread: Option<Duration>,
    /// Also requeue quarantined dead letters, which must be given by id
    #[arg(long, conflicts_with = "all")]
    force: bool,
    #[command(flatten)]
    output: TriageOutputArgs,
}

/// Arguments of `dlq quarantine`.
#[derive(Debug, clap::Args)]
pub struct QuarantineArgs {
    #[command(flatten)]
    selection: LetterSelection,
    /// A tag for the kind of problem, such as poison
    #[arg(long, value_parser = non_empty_text)]
    tag: String,
    #[command(flatten)]
    operator: OperatorWithReasonArgs,
    #[command(flatten)]
    output: TriageOutputArgs,
}

/// Arguments of `dlq release`.
#[derive(Debug, clap::Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    selection: LetterSelection,
    #[command(flatten)]
    operator: OperatorWithReasonArgs,
    #[command(flatten)]
    output: TriageOutputArgs,
}

/// Arguments that control the output.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct TriageOutputArgs {
    /// Print what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object per dead letter
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

pub(super) async fn requeue(db: &Db, args: RequeueArgs) -> anyhow::Result<ExitCode> {
    if let Err(reason) = args.selection.check() {
        return Ok(exit_with(EXIT_USAGE, format!("error: {reason}")));
    }
    let options = RequeueOptions { delay: args.delay, spread: args.spread, force: args.force };
    let selected = args.selection.find(db).await?;
    let mut report = TriageReport::new("requeued", "requeue", args.output, &selected);
    if args.output.dry_run {
        report.add(&triage::plan(db, &selected.ids, &options).await?);
    } else {
        let operator = args.operator.operator();
        triage::requeue(db, &selected.ids, &options, &operator, |fates| report.add(&fates))
            .await
            .map_err(explain_conflict)?;
    }
    Ok(report.finish())
}

pub(super) async fn quarantine(db: &Db, args: QuarantineArgs) -> anyhow::Result<ExitCode> {
    if let Err(reason) = args.selection.check() {
        return Ok(exit_with(EXIT_USAGE, format!("error: {reason}")));
    }
    let selected = args.selection.find(db).await?;
    let mut report = TriageReport::new("quarantined", "quarantine", args.output, &selected);
    let operator = args.operator.operator();
    let added = |fates: Vec<TriageOutcome>| report.add(&fates);
    triage::quarantine(db, &selected.ids, &args.tag, &operator, args.output.dry_run, added)
        .await
        .map_err(explain_conflict)?;
    Ok(report.finish())
}

pub(super) async fn release(db: &Db, args: ReleaseArgs) -> anyhow::Result<ExitCode> {
    if let Err(reason) = args.selection.check() {
        return Ok(exit_with(EXIT_USAGE, format!("error: {reason}")));
    }
    let selected = args.selection.find_holding(db).await?;
    let mut report = TriageReport::new("released", "release", args.output, &selected);
    let operator = args.operator.operator();
    let added = |fates: Vec<TriageOutcome>| report.add(&fates);
    triage::release(db, &selected.ids, &operator, args.output.dry_run, added).await.map_err(explain_conflict)?;
    Ok(report.finish())
}

/// Runs `outbox retry --dead`.
pub(in crate::commands) async fn requeue_outbox_dead_letters(db: &Db, args: RetryArgs) -> anyhow::Result<ExitCode> {
    let Some(why) = args.why else {
        return Ok(exit_with(EXIT_USAGE, "error: state the reason with --why TEXT"));
    };
    let filter = DeadLetterFilter {
        status: Some(DeadLetterStatus::Dead),
        queue: Some(OUTBOX.to_owned()),
        event_id: args.id,
        ..DeadLetterFilter::default()
    };
    let ids = triage::in_order(db, &filter, OUTBOX_REQUEUE_MAX).await?;
    let selected = SelectedLetters { is_truncated: ids.len() == OUTBOX_REQUEUE_MAX as usize, by_id: false, ids };
    let output = TriageOutputArgs { dry_run: false, json: args.json, width: WidthArgs { wide: false } };
    let mut report = TriageReport::new("requeued", "requeue", output, &selected);
    let (options, operator) = (RequeueOptions::default(), Operator { name: args.name, why });
    triage::requeue(db, &selected.ids, &options, &operator, |fates| report.add(&fates))
        .await
        .map_err(explain_conflict)?;
    Ok(report.finish())
}

/// Explains a transient error: a worker may be in the middle of a long turn.
fn explain_conflict(error: DbError) -> anyhow::Error {
    if error.is_transient() && !error.is_unavailable() {
        return anyhow::anyhow!(
            "other processes are working on the same messages ({error}); what was reported as done is done, run the command again for the rest"
        );
    }
    error.into()
}

/// Prints the outcome for each dead letter, and the totals.
struct TriageReport {
    /// The verb in the past tense: `requeued`.
    past: &'static str,
    /// The verb: `requeue`.
    verb: &'static str,
    output: TriageOutputArgs,
    selected: usize,
    by_id: bool,
    is_truncated: bool,
    done: usize,
    refused: usize,
}

impl TriageReport {
    fn new(past: &'static str, verb: &'static str, output: TriageOutputArgs, selected: &SelectedLetters) -> Self {
        let SelectedLetters { ids, by_id, is_truncated } = selected;
        Self {
            past,
            verb,
            output,
            selected: ids.len(),
            by_id: *by_id,
            is_truncated: *is_truncated,
            done: 0,
            refused: 0,
        }
    }

    fn add(&mut self, fates: &[TriageOutcome]) {
        for fate in fates {
            if fate.is_done() {
                self.done += 1;
            } else {
                self.refused += 1;
            }
            match (self.output.json, fate.refusal) {
                (true, _) => println!("{}", self.json(fate)),
                (false, None) => self.output.width.print_wrapped("", &self.line(fate)),
                (false, Some(refusal)) => {
                    let why = advice(refusal, self.verb);
                    self.output.width.eprint_wrapped("", &format!("{} was not {}: {why}", fate.id, self.past));
                }
            }
        }
        if self.selected > CHUNK && !self.output.dry_run {
            eprintln!("{} of {}", self.done + self.refused, self.selected);
        }
    }

    fn json(&self, fate: &TriageOutcome) -> Value {
        let mut shown = json!(fate);
        shown["outcome"] = if fate.is_done() { self.past } else { "refused" }.into();
        shown["dryRun"] = self.output.dry_run.into();
        shown
    }

    fn line(&self, fate: &TriageOutcome) -> String {
        let text = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
        let when = match (fate.requeues, fate.wait_ms) {
            (None, _) => String::new(),
            (_, Some(0)) => ", due now".to_owned(),
            (_, Some(ms)) => format!(", due in {:.1} s", ms as f64 / 1000.0),
            (_, None) => format!(", behind other messages of key {}", text(&fate.ordering_key).escape_debug()),
        };
        let holds = fate.followers.map(|count| {
            let messages = if count == 1 { "1 message".to_owned() } else { format!("{count} messages") };
            let key = text(&fate.ordering_key).escape_debug().to_string();
            match self.verb {
                "release" if self.output.dry_run => format!("; waiting behind it in key {key}: {messages}"),
                "release" => format!("; waiting behind it in key {key}: {messages}, now due"),
                _ => format!(
                    ", still holds key {key} ({messages} waiting); release it with `onceward dlq release {}`",
                    fate.id
                ),
            }
        });
        let would = if self.output.dry_run { format!("would {}", self.verb) } else { self.past.to_owned() };
        format!(
            "{would} {} ({} of {} in {}){when}{}",
            fate.id,
            text(&fate.event_type),
            text(&fate.tenant),
            text(&fate.queue),
            holds.unwrap_or_default()
        )
    }

    fn finish(self) -> ExitCode {
        let Self { verb, past, done, refused, .. } = self;
        if done == 0 {
            return exit_with(EXIT_NOTHING_TO_DO, format!("there was nothing to {verb}"));
        }
        let rest = if refused > 0 { format!(", {refused} refused") } else { String::new() };
        match self.output.dry_run {
            true => eprintln!("{done} would be {past}{rest}; nothing was changed"),
            false => eprintln!("{done} {past}{rest}"),
        }
        if self.is_truncated {
            eprintln!("there may be more than --limit allows; run the command again for the rest");
        }
        ExitCode::from(u8::from(self.by_id && refused > 0))
    }
}

fn advice(refusal: TriageRefusal, verb: &str) -> String {
    match (refusal, verb) {
        (TriageRefusal::Quarantined, "requeue") => {
            format!("{refusal}; to requeue it anyway, name its id and add --force")
        }
        (TriageRefusal::Unreadable, "requeue") => {
            format!("{refusal}; if it holds its key, `onceward dlq release` lets the messages behind it continue")
        }
        (TriageRefusal::NoQueue, _) => format!("{refusal}; run `onceward migrate` with the service that declares it"),
        _ => refusal.to_string(),
    }
}
