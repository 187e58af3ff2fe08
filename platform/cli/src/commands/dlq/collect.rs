//! `dlq collect`.

use super::{EXIT_NOTHING_TO_DO, EXIT_USAGE, exit_with};
use crate::commands::{account, operator::non_empty_text};
use onceward::{Config, Platform, connect};
use onceward_db::Db;
use onceward_message_log::{MessageLog, triage::Operator};
use onceward_messaging::collect::{CollectReport, DeadLetterCollector};
use serde_json::json;
use std::process::ExitCode;

/// Arguments of `dlq collect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this dead-letter queue. Default: all that the services declare
    #[arg(long)]
    queue: Option<String>,
    /// The reason, which is kept in the history permanently
    #[arg(long, value_name = "TEXT", default_value = "collected from the bus", value_parser = non_empty_text)]
    why: String,
    /// The person who acts, if not the account that runs this command
    #[arg(long = "as", value_name = "NAME", default_value_t = account::name(), value_parser = non_empty_text)]
    name: String,
    /// Print what would happen to the first messages of each queue, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object per queue
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(platform: &Platform, config: &Config, db: &Db, args: Args) -> anyhow::Result<ExitCode> {
    let Some(broker) = connect::connect_with_positions(config, platform.topology(), db)? else {
        let message =
            "there is nothing to collect: PostgreSQL is the bus, so every dead letter is already in the database";
        return Ok(exit_with(EXIT_NOTHING_TO_DO, message));
    };
    let readers = platform.consumers().map(|consumer| (consumer.queue().to_owned(), consumer.name().to_owned()));
    let bus = MessageLog::new(db.clone(), config.message_log());
    let collector = DeadLetterCollector::new(bus, broker.clone(), platform.topology().clone(), readers.collect());
    let known = collector.queues();
    let queues: Vec<&str> =
        known.iter().copied().filter(|name| args.queue.as_deref().is_none_or(|requested| requested == *name)).collect();
    if let (Some(requested), true) = (&args.queue, queues.is_empty()) {
        let message = format!("error: {requested} is not a dead-letter queue; known queues: {}", known.join(", "));
        return Ok(exit_with(EXIT_USAGE, message));
    }
    let operator = Operator { name: args.name.clone(), why: args.why.clone() };
    let mut collected = 0;
    for queue in queues {
        let report = if args.dry_run {
            collector.rehearse(queue, &operator).await?
        } else {
            collector.collect(queue, &operator, |report| eprintln!("{queue}: {} so far", report.taken())).await?
        };
        collected += report.taken();
        print(queue, &report, &args);
    }
    broker.close().await;
    if collected == 0 {
        return Ok(exit_with(EXIT_NOTHING_TO_DO, "there was nothing to collect"));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(queue: &str, report: &CollectReport, args: &Args) {
    let CollectReport { letters, copies, known, more } = report;
    if args.json {
        let ids = if args.dry_run { &[] } else { &letters[..] };
        println!(
            "{}",
            json!({"queue": queue, "collected": letters.len(), "letters": ids, "copies": copies, "known": known,
                   "more": more, "dryRun": args.dry_run})
        );
        return;
    }
    let verb = if args.dry_run { "would become" } else { "became" };
    println!(
        "{queue}: {} {verb} dead letters, {copies} were copies of dead letters, {known} were already known",
        letters.len()
    );
    if *more {
        println!("{queue}: there are more messages");
    }
}
