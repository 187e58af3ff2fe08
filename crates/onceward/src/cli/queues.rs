//! `queues`.

use super::outbox::BUS_ANSWERS_WITHIN;
use crate::{
    Config, Platform, broker,
    bus_counts::{BusCount, bus_counts},
    outbox_status,
};
use onceward_db::Db;
use onceward_transport::BusKind;
use onceward_transport_postgres::{
    routes::OUTBOX,
    stats::{self, QueueStats},
};
use serde_json::json;
use std::{collections::HashMap, process::ExitCode};

/// Arguments of `queues`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// What the bus holds, by queue.
type OnTheBus = HashMap<String, Option<u64>>;

pub(super) async fn run(platform: &Platform, config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    let mut queues = stats::queue_stats(&db).await?;
    if outbox_status::bus(&db).await? == BusKind::Postgres.name() {
        // The commit publishes, so there is an outbox only if another bus left something in it.
        queues.retain(|queue| queue.queue != OUTBOX || queue.depth + queue.deferred + queue.dead > 0);
    }
    let on_the_bus = ask_the_bus(platform, config).await?;
    if !args.json {
        let bus = if on_the_bus.is_some() { format!(" {:>10}", "on the bus") } else { String::new() };
        println!("{:<36} {:>10} {:>10} {:>9} {:>6}{bus}", "queue", "waiting", "oldest s", "put aside", "dead");
    }
    for queue in queues {
        match args.json {
            true => print_json(&queue, on_the_bus.as_ref()),
            false => print(&queue, on_the_bus.as_ref()),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `None` on PostgreSQL. A bus that does not answer holds up nobody for long.
async fn ask_the_bus(platform: &Platform, config: &Config) -> anyhow::Result<Option<OnTheBus>> {
    let Some(broker) = broker::connect(config, platform.topology())? else {
        return Ok(None);
    };
    let counts = bus_counts(broker.as_ref(), platform.topology(), BUS_ANSWERS_WITHIN).await.unwrap_or_else(|error| {
        eprintln!("what the bus holds is not known: {error}");
        Vec::new()
    });
    Ok(Some(counts.into_iter().map(|BusCount { queue, waiting }| (queue, waiting)).collect()))
}

fn print_json(queue: &QueueStats, on_the_bus: Option<&OnTheBus>) {
    let mut shown = json!({"queue": queue.queue, "waiting": queue.depth, "oldestSeconds": queue.lag_seconds,
                           "putAside": queue.deferred, "dead": queue.dead});
    if let Some(on_the_bus) = on_the_bus {
        shown["onTheBus"] = json!(on_the_bus.get(&queue.queue).copied().flatten());
    }
    println!("{shown}");
}

fn print(queue: &QueueStats, on_the_bus: Option<&OnTheBus>) {
    let held = on_the_bus.map(|on_the_bus| {
        let held = on_the_bus.get(&queue.queue).copied().flatten();
        format!(" {:>10}", held.map_or("-".to_owned(), |held| held.to_string()))
    });
    println!(
        "{:<36} {:>10} {:>10.1} {:>9} {:>6}{}",
        queue.queue,
        queue.depth,
        queue.lag_seconds,
        queue.deferred,
        queue.dead,
        held.unwrap_or_default()
    );
}
