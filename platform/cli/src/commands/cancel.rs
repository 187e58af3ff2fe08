//! `queues cancel`.

use super::{EXIT_NOTHING_TO_DO, operator::OperatorWithReasonArgs};
use crate::table::WidthArgs;
use onceward::{Config, Platform};
use onceward_db::{Db, DbError};
use onceward_message_log::{
    routes::OUTBOX,
    triage::{self, CancelOutcome, CancelledMessage},
};
use serde_json::json;
use std::{collections::HashMap, process::ExitCode};
use uuid::Uuid;

/// Arguments of `queues cancel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The id of the message, as `onceward trace` shows it
    event_id: Uuid,
    /// Only in this queue; `@outbox` is the outbox to an external bus. Default: in every queue in which it waits
    #[arg(long)]
    queue: Option<String>,
    #[command(flatten)]
    operator: OperatorWithReasonArgs,
    /// Print what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object per queue
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

pub(super) async fn run(platform: &Platform, config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    let mut readers: HashMap<String, String> =
        platform.consumers().map(|consumer| (consumer.queue().to_owned(), consumer.name().to_owned())).collect();
    readers.insert(OUTBOX.to_owned(), "relay".to_owned());
    let operator = args.operator.operator();
    let messages = triage::cancel(&db, args.event_id, args.queue.as_deref(), &readers, &operator, args.dry_run)
        .await
        .map_err(explain_conflict)?;
    if messages.is_empty() {
        let place = args.queue.map(|queue| format!(" in {queue}")).unwrap_or_default();
        eprintln!("there is no message {}{place} in the log", args.event_id);
        return Ok(ExitCode::from(EXIT_NOTHING_TO_DO));
    }
    for message in &messages {
        if args.json {
            let mut shown = json!(message);
            shown["dryRun"] = args.dry_run.into();
            println!("{shown}");
        } else if message.outcome.is_done() {
            args.width.print_wrapped("", &line(message, args.dry_run));
        } else {
            args.width.eprint_wrapped("", &line(message, args.dry_run));
        }
    }
    Ok(exit_code(&messages))
}

fn exit_code(messages: &[CancelledMessage]) -> ExitCode {
    let any = |outcome: fn(CancelOutcome) -> bool| messages.iter().any(|message| outcome(message.outcome));
    match (any(|outcome| outcome == CancelOutcome::InFlight), any(CancelOutcome::is_done)) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(EXIT_NOTHING_TO_DO),
    }
}

fn line(message: &CancelledMessage, dry_run: bool) -> String {
    let CancelledMessage { queue, event_type, tenant, .. } = message;
    let letter = message.letter.map(|id| format!(" {id}")).unwrap_or_default();
    let what = match (message.outcome, dry_run) {
        (CancelOutcome::Cancelled, false) => {
            format!("cancelled; it is dead letter{letter}, and `onceward dlq requeue{letter}` undoes this")
        }
        (CancelOutcome::Cancelled, true) => "would be cancelled".to_owned(),
        (CancelOutcome::CancelledOnArrival, false) => {
            "cancelled; it is on its way over the bus and becomes a dead letter when it arrives".to_owned()
        }
        (CancelOutcome::CancelledOnArrival, true) => "would be cancelled when it arrives from the bus".to_owned(),
        (CancelOutcome::InFlight, _) => {
            "not cancelled: a worker holds it; if it is retried later, it can be cancelled then".to_owned()
        }
        (CancelOutcome::AlreadyDead, _) if letter.is_empty() => "not cancelled: it was cancelled before".to_owned(),
        (CancelOutcome::AlreadyDead, _) => format!("not cancelled: it is already dead letter{letter}"),
        (CancelOutcome::Handled, _) => "not cancelled: it has already been handled".to_owned(),
    };
    format!("{queue} ({event_type} of {tenant}): {what}")
}

/// Explains a lock that was not available: the message may be among those that a worker is handling.
fn explain_conflict(error: DbError) -> anyhow::Error {
    if error.is_transient() && !error.is_unavailable() {
        return anyhow::anyhow!(
            "nothing was cancelled: a worker is handling messages of the same lane, perhaps this one ({error}); run the command again"
        );
    }
    error.into()
}
