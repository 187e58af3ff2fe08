//! `queues`: what waits in each queue. What operators set for queues is in `controls`.

use super::{cancel, controls, outbox::BUS_TIMEOUT};
use crate::table::{TextTable, WidthArgs, number, text};
use jiff::Timestamp;
use onceward::{
    Config, Platform,
    admin::backlog::{QueueBacklog, queue_backlogs},
    admin::relays,
    connect,
};
use onceward_broker::BusKind;
use onceward_db::Db;
use onceward_message_log::{
    controls::{self as message_log_controls, ControlEntry},
    routes::OUTBOX,
    stats::{self, HeldKeys, QueueStats, UnknownMessages, at_least},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    process::ExitCode,
};

/// Arguments of `queues`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
    #[command(flatten)]
    list: QueueListArgs,
}

/// Arguments of the listing.
#[derive(Debug, clap::Args)]
pub struct QueueListArgs {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

/// Commands about messages in queues.
#[derive(Debug, clap::Subcommand)]
pub enum QueuesCommand {
    /// Cancel a message that waits: it is not handled, and becomes a dead letter with the reason `cancelled`
    ///
    /// The message may wait in a queue, for a retry or a time, behind another message of its key, in the outbox, or on an
    /// external bus. Messages behind it continue, also if the consumer's dead letters hold their key. A message that a worker
    /// holds or has handled cannot be cancelled. `onceward dlq requeue` undoes a cancellation.
    ///
    /// Exit status: 0 if cancelled, 1 if a worker holds it, 3 if there was nothing to cancel.
    Cancel(cancel::Args),
    #[command(flatten)]
    Control(controls::ControlCommand),
}

/// The messages that the bus holds, by queue.
type BacklogByQueue = HashMap<String, QueueBacklog>;

pub(super) async fn run(platform: &Platform, config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(QueuesCommand::Cancel(args)) => cancel::run(platform, config, args).await,
        Some(QueuesCommand::Control(command)) => controls::run(config, command).await,
        None => list(platform, config, args.list).await,
    }
}

async fn list(platform: &Platform, config: &Config, args: QueueListArgs) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    let mut queues = stats::queue_stats(&db).await?;
    if relays::recorded_bus(&db).await? == BusKind::Postgres.name() {
        // The commit publishes, so the outbox is empty unless another bus left something in it.
        queues.retain(|queue| queue.queue != OUTBOX || queue.depth + queue.deferred + queue.dead > 0);
    }
    let on_the_bus = load_bus_backlog(platform, config, &db, args.width).await?;
    let set = message_log_controls::list(&db).await?;
    let unknown = stats::unknown_messages(&db).await?;
    let unknown: BTreeMap<&str, &UnknownMessages> = unknown.iter().map(|one| (one.queue.as_str(), one)).collect();
    let held = stats::held_keys(&db).await?;
    let held: BTreeMap<&str, &HeldKeys> = held.iter().map(|one| (one.queue.as_str(), one)).collect();
    let read: HashSet<&str> = platform.consumers().map(|consumer| consumer.queue()).collect();
    for queue in &mut queues {
        // In a queue without a consumer, no message waits to be handled.
        if let Some(count) = on_the_bus.as_ref().and_then(|counts| counts.get(&queue.queue))
            && read.contains(queue.queue.as_str())
        {
            queue.lag_seconds = queue.lag_seconds.max(count.lag_seconds(Timestamp::now()));
        }
    }
    if args.json {
        let unknown_of = |queue: &QueueStats| unknown.get(queue.queue.as_str()).copied();
        let held_of = |queue: &QueueStats| held.get(queue.queue.as_str()).copied();
        queues.iter().for_each(|queue| print_json(queue, unknown_of(queue), held_of(queue), &set, on_the_bus.as_ref()));
    } else {
        let table = table(&queues, &unknown, &held, on_the_bus.as_ref());
        table.print(args.width, "no queues are declared; run `onceward migrate`");
        unknown
            .values()
            .filter(|one| one.messages > 0)
            .for_each(|one| args.width.eprint_wrapped("", &explain_unknown(one)));
        held.values().for_each(|one| args.width.eprint_wrapped("", &explain_held(one)));
        set.iter().for_each(|entry| args.width.eprint_wrapped("", &controls::describe(entry)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Explains the column "unknown" for a queue that has unknown messages.
fn explain_unknown(unknown: &UnknownMessages) -> String {
    format!(
        "{}: no running worker knows {}; the oldest has waited for {:.0} s. Later messages of the same keys wait as well.",
        unknown.queue,
        unknown.event_types.join(", "),
        unknown.oldest_seconds
    )
}

/// Explains the column "held" for a queue that has held keys.
fn explain_held(held: &HeldKeys) -> String {
    format!(
        "{}: keys held by dead letters: {}, the first for {:.0} s; `onceward dlq list --holding --queue {}` lists them. Later messages of \
         these keys wait until they are requeued or released.",
        held.queue,
        at_least(held.keys, held.is_more),
        held.longest_seconds,
        held.queue
    )
}

/// Returns `None` if PostgreSQL is the bus. Does not wait long for a bus that does not respond.
async fn load_bus_backlog(
    platform: &Platform,
    config: &Config,
    db: &Db,
    width: WidthArgs,
) -> anyhow::Result<Option<BacklogByQueue>> {
    let Some(broker) = connect::connect_with_positions(config, platform.topology(), db)? else {
        return Ok(None);
    };
    let counts = queue_backlogs(broker.as_ref(), db, platform.topology(), BUS_TIMEOUT, config.bus.prefetch);
    let counts = counts.await.unwrap_or_else(|error| {
        width.eprint_wrapped("", &format!("the messages on the bus are unknown: {error}"));
        Vec::new()
    });
    Ok(Some(counts.into_iter().map(|count| (count.queue.clone(), count)).collect()))
}

fn print_json(
    queue: &QueueStats,
    unknown: Option<&UnknownMessages>,
    held: Option<&HeldKeys>,
    set: &[ControlEntry],
    on_the_bus: Option<&BacklogByQueue>,
) {
    let (pauses, limits): (Vec<&ControlEntry>, Vec<&ControlEntry>) =
        set.iter().filter(|entry| entry.queue == queue.queue).partition(|entry| entry.ends_at.is_some());
    let mut shown = json!({"queue": queue.queue, "waiting": queue.depth, "oldestSeconds": queue.lag_seconds,
                           "putAside": queue.deferred, "putAsideIsMore": queue.deferred_is_more,
                           "unknown": unknown.map_or(0, |one| one.messages),
                           "unknownIsMore": unknown.is_some_and(|one| one.is_more),
                           "unknownOldestSeconds": unknown.map_or(0.0, |one| one.oldest_seconds),
                           "unknownTypes": unknown.map_or(&[][..], |one| &one.event_types),
                           "heldKeys": held.map_or(0, |one| one.keys), "heldKeysIsMore": held.is_some_and(|one| one.is_more),
                           "heldKeysLongestSeconds": held.map_or(0.0, |one| one.longest_seconds),
                           "dead": queue.dead, "deadIsMore": queue.dead_is_more,
                           "pauses": pauses, "rateLimits": limits});
    if let Some(on_the_bus) = on_the_bus {
        shown["onTheBus"] = json!(on_the_bus.get(&queue.queue).and_then(|count| count.waiting));
    }
    println!("{shown}");
}

fn table(
    queues: &[QueueStats],
    unknown: &BTreeMap<&str, &UnknownMessages>,
    held: &BTreeMap<&str, &HeldKeys>,
    on_the_bus: Option<&BacklogByQueue>,
) -> TextTable {
    let mut columns = vec![
        text("queue"),
        number("waiting"),
        number("oldest s"),
        number("deferred"),
        number("unknown"),
        number("dead"),
        number("held"),
    ];
    columns.extend(on_the_bus.map(|_| number("on the bus")));
    let mut table = TextTable::new(&columns);
    for queue in queues {
        let waiting_there = on_the_bus.map(|on_the_bus| {
            let waiting = on_the_bus.get(&queue.queue).and_then(|count| count.waiting);
            waiting.map_or("-".to_owned(), |waiting| waiting.to_string())
        });
        let mut cells = vec![
            queue.queue.clone(),
            queue.depth.to_string(),
            format!("{:.1}", queue.lag_seconds),
            at_least(queue.deferred, queue.deferred_is_more),
            unknown.get(queue.queue.as_str()).map_or("0".to_owned(), |one| at_least(one.messages, one.is_more)),
            at_least(queue.dead, queue.dead_is_more),
            held.get(queue.queue.as_str()).map_or("0".to_owned(), |one| at_least(one.keys, one.is_more)),
        ];
        cells.extend(waiting_there);
        table.row(cells);
    }
    table
}
