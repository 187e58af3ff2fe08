//! `outbox`: what is on its way to an external bus.

use super::{NOTHING, dlq::requeue_dead_of_outbox};
use crate::{
    Config, Platform, broker,
    bus_counts::{BusCount, bus_counts},
    outbox_report::OutboxReport,
};
use onceward_db::Db;
use onceward_transport::BusKind;
use onceward_transport_postgres::outbox;
use serde_json::json;
use std::{process::ExitCode, time::Duration};
use uuid::Uuid;

/// How long the bus may take to say what it holds.
pub(super) const BUS_ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// What can be done with the outbox.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show what waits to be handed to the bus, why, and who carries it
    ///
    /// Exit codes: 0 all is well, 1 messages wait because no relay runs or none reaches the bus.
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Offer messages that the bus refused again now
    ///
    /// Without --dead: those that wait for their next offer. Exit codes: 0 done, 3 there was nothing to offer.
    Retry(RetryArgs),
}

/// Arguments of `outbox retry`.
#[derive(Debug, clap::Args)]
pub struct RetryArgs {
    /// Only this event's message
    #[arg(long, value_name = "EVENT_ID")]
    pub(super) id: Option<Uuid>,
    /// Those that were given up instead: requeues the dead letters of the outbox, like `dlq requeue --queue @outbox --all`
    #[arg(long, requires = "why")]
    dead: bool,
    /// Why; with --dead it is kept in the history for good
    #[arg(long, value_name = "TEXT", value_parser = super::dlq::said)]
    pub(super) why: Option<String>,
    /// Who acts
    #[arg(long = "as", value_name = "NAME", env = "USER", value_parser = super::dlq::said)]
    pub(super) name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(platform: &Platform, config: &Config, command: Command) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    match command {
        Command::Status { json } => status(platform, config, &db, json).await,
        Command::Retry(args) if args.dead => requeue_dead_of_outbox(&db, args).await,
        Command::Retry(args) => retry(&db, args).await,
    }
}

async fn retry(db: &Db, args: RetryArgs) -> anyhow::Result<ExitCode> {
    let offered = outbox::retry(db, args.id).await?;
    if args.json {
        println!("{}", json!({ "offered": offered }));
    }
    if offered == 0 {
        match args.id {
            Some(id) => eprintln!(
                "the message of event {id} does not wait for its next offer: it was handed over, was given up \
                 (see `onceward dlq list --queue @outbox`), or stands behind another of its key"
            ),
            None => eprintln!("no refused message waits for its next offer"),
        }
        return Ok(ExitCode::from(NOTHING));
    }
    if !args.json {
        println!("{offered} offered again now");
    }
    Ok(ExitCode::SUCCESS)
}

async fn status(platform: &Platform, config: &Config, db: &Db, as_json: bool) -> anyhow::Result<ExitCode> {
    let report = OutboxReport::read(db, config.bus_kind().map_err(anyhow::Error::msg)?).await?;
    let broker = broker::connect(config, platform.topology())?;
    let counts = match &broker {
        Some(broker) => Some(bus_counts(broker.as_ref(), platform.topology(), BUS_ANSWERS_WITHIN).await),
        None => None,
    };
    let trouble = report.trouble();
    if as_json {
        let mut shown = json!(report);
        shown["trouble"] = json!(trouble);
        shown["onTheBus"] = json!(counts.as_ref().and_then(|counts| counts.as_ref().ok()));
        shown["busError"] = json!(counts.as_ref().and_then(|counts| counts.as_ref().err()));
        println!("{shown}");
    } else {
        print(&report, counts.as_ref());
        if let Some(trouble) = &trouble {
            eprintln!("{trouble}");
        }
    }
    Ok(ExitCode::from(u8::from(trouble.is_some())))
}

fn print(report: &OutboxReport, counts: Option<&Result<Vec<BusCount>, String>>) {
    let OutboxReport { bus, settings, unpublished, oldest_seconds, refused, dead, .. } = report;
    match bus == settings {
        true => println!("bus           {bus}"),
        false => println!(
            "bus           {bus}; the settings name {settings}: set BROKER_URL, or run `onceward migrate` to switch"
        ),
    }
    if bus == BusKind::Postgres.name() {
        println!("              the commit publishes: nothing waits and no relay is needed");
    }
    for relay in &report.relays {
        let state = match (relay.alive, relay.up) {
            (false, _) => "is silent".to_owned(),
            (true, true) => format!("up since {}", relay.since),
            (true, false) => {
                format!("down since {}: {}", relay.since, relay.last_error.as_deref().unwrap_or("no reason given"))
            }
        };
        println!("relay         {} {state}", relay.relay);
    }
    println!("unpublished   {unpublished}, the oldest {oldest_seconds:.1} s old");
    let next =
        report.next_due_ms.filter(|_| *refused > 0).map(|ms| format!(", next offer in {:.1} s", ms as f64 / 1000.0));
    println!("refused       {refused}{}", next.unwrap_or_default());
    if let Some(error) = &report.last_refusal {
        println!("              {}", error.escape_debug());
    }
    println!("dead          {dead}{}", if *dead > 0 { ": `onceward dlq list --queue @outbox`" } else { "" });
    match counts {
        Some(Ok(counts)) => counts.iter().for_each(|BusCount { queue, waiting }| {
            println!("on the bus    {queue} {}", waiting.map_or("unknown".to_owned(), |waiting| waiting.to_string()));
        }),
        Some(Err(error)) => println!("on the bus    unknown: {error}"),
        None => {}
    }
}
