//! `dlq collect`.

use super::{MISUSED, NOTHING, end, select::said};
use crate::{Config, Platform, broker};
use onceward_db::Db;
use onceward_messaging::collect::{Collector, Report};
use onceward_transport_postgres::{PostgresTransport, triage::Operator};
use serde_json::json;
use std::process::ExitCode;

/// Arguments of `dlq collect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this dead-letter queue; without it, all that the services declare
    #[arg(long)]
    queue: Option<String>,
    /// Why; it is kept in the history for good
    #[arg(long, value_name = "TEXT", default_value = "collected from the bus", value_parser = said)]
    why: String,
    /// Who acts
    #[arg(long = "as", value_name = "NAME", env = "USER", value_parser = said)]
    name: String,
    /// Print what would happen with the first messages of each queue, and leave them there
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object a queue
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(platform: &Platform, config: &Config, db: &Db, args: Args) -> anyhow::Result<ExitCode> {
    let Some(broker) = broker::connect(config, platform.topology())? else {
        let said =
            "PostgreSQL is the bus, so every dead letter is in the database already: there is nothing to collect";
        return Ok(end(NOTHING, said));
    };
    let readers = platform.consumers().map(|consumer| (consumer.queue().to_owned(), consumer.name().to_owned()));
    let bus = PostgresTransport::new(db.clone(), config.postgres_bus());
    let collector = Collector::new(bus, broker.clone(), platform.topology().clone(), readers.collect());
    let known = collector.queues();
    let queues: Vec<&str> =
        known.iter().copied().filter(|name| args.queue.as_deref().is_none_or(|asked| asked == *name)).collect();
    if let (Some(asked), true) = (&args.queue, queues.is_empty()) {
        let said = format!("error: {asked} is no dead-letter queue; there are: {}", known.join(", "));
        return Ok(end(MISUSED, said));
    }
    let operator = Operator { name: args.name.clone(), why: args.why.clone() };
    let mut taken = 0;
    for queue in queues {
        let report = if args.dry_run {
            collector.rehearse(queue, &operator).await?
        } else {
            collector.collect(queue, &operator, |report| eprintln!("{queue}: {} so far", report.taken())).await?
        };
        taken += report.taken();
        print(queue, &report, &args);
    }
    broker.close().await;
    if taken == 0 {
        return Ok(end(NOTHING, "there was nothing to collect"));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(queue: &str, report: &Report, args: &Args) {
    let Report { letters, copies, known, more } = report;
    if args.json {
        let ids = if args.dry_run { &[] } else { &letters[..] };
        println!(
            "{}",
            json!({"queue": queue, "collected": letters.len(), "letters": ids, "copies": copies, "known": known,
                   "more": more, "dryRun": args.dry_run})
        );
        return;
    }
    let would = if args.dry_run { " would become" } else { "" };
    println!("{queue}: {}{would} dead letters, {copies} copies of such, {known} known already", letters.len());
    if *more {
        println!("{queue}: there are more");
    }
}
