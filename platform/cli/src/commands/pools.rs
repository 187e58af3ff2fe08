//! `pools [log|set|reset]`: worker pools, their decisions and their settings.

use super::operator::OperatorWithReasonArgs;
use crate::{
    EXIT_NOTHING_TO_DO,
    table::{TextTable, WidthArgs, fixed, number, text},
};
use onceward::{Config, PoolSettings};
use onceward_db::Db;
use onceward_message_log::pools::{self, WorkerPoolStatus};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Arguments of `pools`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<PoolCommand>,
    #[command(flatten)]
    list: PoolListArgs,
}

/// Arguments of listings.
#[derive(Debug, clap::Args)]
pub struct PoolListArgs {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

/// Commands about one worker pool.
#[derive(Debug, clap::Subcommand)]
enum PoolCommand {
    /// Show the latest changes of a pool's size, with their reasons
    Log {
        /// The pool
        pool: String,
        /// How many changes to show
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i32).range(1..=200))]
        limit: i32,
        #[command(flatten)]
        list: PoolListArgs,
    },
    /// Change settings of a pool; the others stay as they are
    Set {
        /// The pool
        pool: String,
        /// The smallest number of workers over all processes
        #[arg(long, value_name = "WORKERS")]
        min: Option<usize>,
        /// The largest number of workers over all processes; a process runs no more than the code declares
        #[arg(long, value_name = "WORKERS")]
        max: Option<usize>,
        /// Its part of the slots that all pools of a process share
        #[arg(long)]
        weight: Option<u32>,
        /// Grow if at least this many messages wait
        #[arg(long, value_name = "MESSAGES")]
        scale_up_at: Option<u64>,
        /// Shrink if at most this many messages wait
        #[arg(long, value_name = "MESSAGES")]
        scale_down_at: Option<u64>,
        /// The least time between two changes
        #[arg(long, value_name = "MS")]
        cooldown_ms: Option<u64>,
        #[command(flatten)]
        operator: OperatorWithReasonArgs,
    },
    /// Return to the settings that the code declares
    Reset {
        /// The pool
        pool: String,
        #[command(flatten)]
        operator: OperatorWithReasonArgs,
    },
}

pub(super) async fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    match args.command {
        None => list(&db, &args.list).await,
        Some(PoolCommand::Log { pool, limit, list }) => log(&db, &pool, limit, &list).await,
        Some(PoolCommand::Reset { pool, operator }) => {
            let is_known = pools::set(&db, &pool, None, &operator.operator()).await?;
            Ok(report(is_known, &pool, "has the settings of the code again"))
        }
        Some(PoolCommand::Set { pool: name, min, max, weight, scale_up_at, scale_down_at, cooldown_ms, operator }) => {
            let Some(pool) = pools::list(&db).await?.into_iter().find(|pool| pool.name == name) else {
                return Ok(report(false, &name, ""));
            };
            let old = pool.settings;
            let settings = PoolSettings {
                min: min.unwrap_or(old.min),
                max: max.unwrap_or(old.max),
                weight: weight.unwrap_or(old.weight),
                scale_up_at: scale_up_at.unwrap_or(old.scale_up_at),
                scale_down_at: scale_down_at.unwrap_or(old.scale_down_at),
                cooldown_ms: cooldown_ms.unwrap_or(old.cooldown_ms),
                ..old
            };
            let mistakes = settings.validate();
            anyhow::ensure!(mistakes.is_empty(), "nothing was changed: {}", mistakes.join("; "));
            let is_known = pools::set(&db, &name, Some(&settings), &operator.operator()).await?;
            Ok(report(is_known, &name, "has new settings"))
        }
    }
}

fn report(is_known: bool, name: &str, done: &str) -> ExitCode {
    if is_known {
        println!("the pool {name} {done}");
        return ExitCode::SUCCESS;
    }
    eprintln!("there is no worker pool {name}; `onceward pools` lists them");
    ExitCode::from(EXIT_NOTHING_TO_DO)
}

async fn list(db: &Db, args: &PoolListArgs) -> anyhow::Result<ExitCode> {
    let pools = pools::list(db).await?;
    if args.json {
        pools.iter().for_each(|pool| println!("{}", to_json(pool)));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = TextTable::new(&[
        text("pool"),
        number("size"),
        fixed("bounds"),
        number("active"),
        number("waiting"),
        number("oldest s"),
        number("per s"),
        number("mean ms"),
        number("errors %"),
    ]);
    for pool in &pools {
        table.row(cells(pool));
    }
    table.print(args.width, "no worker pools are declared, or no worker has started yet");
    for pool in &pools {
        args.width.eprint_wrapped("", &describe(pool));
    }
    Ok(ExitCode::SUCCESS)
}

fn cells(pool: &WorkerPoolStatus) -> [String; 9] {
    [
        pool.name.clone(),
        pool.size.to_string(),
        format!("{}-{}", pool.settings.min, pool.settings.max),
        pool.active.to_string(),
        pool.waiting.to_string(),
        format!("{:.1}", pool.oldest_ms as f64 / 1_000.0),
        format!("{:.1}", pool.rates.throughput_per_s),
        pool.rates.mean_ms.map_or("-".to_owned(), |ms| format!("{ms:.1}")),
        format!("{:.1}", pool.rates.error_rate * 100.0),
    ]
}

fn to_json(pool: &WorkerPoolStatus) -> Value {
    let (settings, rates) = (&pool.settings, &pool.rates);
    json!({
        "pool": pool.name, "queues": settings.queues, "size": pool.size, "min": settings.min, "max": settings.max,
        "weight": settings.weight, "step": settings.step, "scaleUpAt": settings.scale_up_at,
        "scaleDownAt": settings.scale_down_at, "checkEveryMs": settings.check_every_ms,
        "cooldownMs": settings.cooldown_ms, "stabilizeMs": settings.stabilize_ms, "targetAgeMs": settings.target_age_ms,
        "setBy": pool.set_by, "processes": pool.processes, "active": pool.active, "waiting": pool.waiting,
        "oldestMs": pool.oldest_ms, "delayed": pool.delayed, "paused": pool.paused > 0, "blocked": pool.blocked,
        "completed": pool.completed, "failed": pool.failed, "throughputPerSecond": rates.throughput_per_s,
        "meanMs": rates.mean_ms, "errorRate": rates.error_rate, "arrivalsPerSecond": rates.arrivals_per_s,
        "lastCompletedAt": pool.last_completed_at, "lastFailedAt": pool.last_failed_at, "checkedAt": pool.checked_at,
    })
}

/// Describes what does not fit into the table.
fn describe(pool: &WorkerPoolStatus) -> String {
    let time = |at: Option<jiff::Timestamp>| at.map_or("never".to_owned(), |at| at.to_string());
    let mut text = format!(
        "{}: {} of {} processes; completed {}, last {}; failed {}, last {}",
        pool.name,
        pool.settings.queues.join(", "),
        pool.processes,
        pool.completed,
        time(pool.last_completed_at),
        pool.failed,
        time(pool.last_failed_at)
    );
    if pool.delayed > 0 {
        text.push_str(&format!("; {} messages wait for a later time", pool.delayed));
    }
    if pool.paused > 0 {
        text.push_str("; paused: see `onceward queues controls`");
    }
    if let Some(why) = &pool.blocked {
        text.push_str(&format!("; it does not grow: {why}"));
    }
    if let Some(name) = &pool.set_by {
        text.push_str(&format!("; settings changed by {name}"));
    }
    text
}

async fn log(db: &Db, name: &str, limit: i32, args: &PoolListArgs) -> anyhow::Result<ExitCode> {
    let decisions = pools::decisions(db, name, limit).await?;
    if args.json {
        decisions.iter().for_each(|decision| println!("{}", json!(decision)));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = TextTable::new(&[fixed("at"), text("decision")]);
    for decision in &decisions {
        table.row([decision.at.to_string(), decision.reason.clone()]);
    }
    table.print(args.width, "its size has not changed");
    Ok(ExitCode::SUCCESS)
}
