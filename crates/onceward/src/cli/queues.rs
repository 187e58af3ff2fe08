//! `queues`.

use crate::Config;
use onceward_db::Db;
use onceward_transport_postgres::stats;
use std::process::ExitCode;

/// Arguments of `queues`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    let queues = stats::queue_stats(&db).await?;
    if !args.json {
        println!("{:<36} {:>10} {:>10} {:>9} {:>6}", "queue", "waiting", "oldest s", "put aside", "dead");
    }
    for queue in queues {
        if args.json {
            println!(
                "{}",
                serde_json::json!({"queue": queue.queue, "waiting": queue.depth, "oldestSeconds": queue.lag_seconds,
                                   "putAside": queue.deferred, "dead": queue.dead})
            );
        } else {
            println!(
                "{:<36} {:>10} {:>10.1} {:>9} {:>6}",
                queue.queue, queue.depth, queue.lag_seconds, queue.deferred, queue.dead
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
