//! `breaker list|isolate|close`: the breakers of destinations, as all processes see them.

use super::{duration, operator::OperatorWithReasonArgs};
use crate::{
    EXIT_NOTHING_TO_DO,
    table::{TextTable, WidthArgs, fixed, text},
};
use jiff::Timestamp;
use onceward::{
    Config, Platform,
    outbound::{self, BreakerRow},
};
use onceward_audit::{self as audit, Entry};
use onceward_db::{Db, Scope};
use onceward_resilience::SharedPhase;
use serde_json::{Map, Value, json};
use std::{process::ExitCode, time::Duration};

/// Commands about breakers. Every act is recorded in the audit trail.
#[derive(Debug, clap::Subcommand)]
pub enum BreakerCommand {
    /// List the breakers that are not simply closed
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        width: WidthArgs,
    },
    /// Reject all calls to a destination, in all processes
    ///
    /// Messages whose handlers call it wait without counting an attempt.
    Isolate {
        #[command(flatten)]
        target: BreakerArgs,
        /// How long, such as 30s, 10m or 2h; until `onceward breaker close` if absent
        #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
        isolate_for: Option<Duration>,
        #[command(flatten)]
        operator: OperatorWithReasonArgs,
    },
    /// Allow calls to a destination again, in all processes
    Close {
        #[command(flatten)]
        target: BreakerArgs,
        #[command(flatten)]
        operator: OperatorWithReasonArgs,
    },
}

/// A breaker.
#[derive(Debug, clap::Args)]
pub struct BreakerArgs {
    /// The destination
    destination: String,
    /// The digest of the credential, as `onceward breaker list --json` shows it; without it, the breaker of calls without one
    #[arg(long, value_name = "DIGEST", default_value = "")]
    credential: String,
}

pub(super) async fn run(platform: &Platform, config: &Config, command: BreakerCommand) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    match command {
        BreakerCommand::List { json, width } => {
            let rows = outbound::list(&db).await?;
            if json {
                rows.iter().for_each(|row| println!("{}", to_json(row)));
            } else {
                print(&rows, width);
            }
            Ok(ExitCode::SUCCESS)
        }
        BreakerCommand::Isolate { target, isolate_for, operator } => {
            require_declared(platform, &target.destination)?;
            let operator = operator.operator();
            let mut tx = db.begin(Scope::platform("breaker")).await?;
            let by = (operator.name.as_str(), operator.why.as_str());
            outbound::isolate(&tx, &target.destination, &target.credential, by, isolate_for).await?;
            let details = target.details([("seconds", json!(isolate_for.map(|time| time.as_secs_f64())))]);
            audit::record_action(&mut tx, &operator, None, target.entry("breaker_isolated"), details)?;
            tx.commit().await?;
            println!("calls to {} are rejected", target.destination);
            Ok(ExitCode::SUCCESS)
        }
        BreakerCommand::Close { target, operator } => {
            let is_open =
                |row: &BreakerRow| row.destination == target.destination && row.credential == target.credential;
            if !outbound::list(&db).await?.iter().any(is_open) {
                eprintln!("the breaker of {} is closed already", target.destination);
                return Ok(ExitCode::from(EXIT_NOTHING_TO_DO));
            }
            let mut tx = db.begin(Scope::platform("breaker")).await?;
            outbound::close(&tx, &target.destination, &target.credential).await?;
            let entry = target.entry("breaker_closed");
            audit::record_action(&mut tx, &operator.operator(), None, entry, target.details([]))?;
            tx.commit().await?;
            println!("calls to {} are allowed again", target.destination);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Fails if no service declares the destination, so that a misspelt name is not isolated in vain.
fn require_declared(platform: &Platform, destination: &str) -> anyhow::Result<()> {
    let names: Vec<&str> = platform.destinations().map(|declared| declared.name()).collect();
    anyhow::ensure!(
        names.contains(&destination),
        "no service declares the destination {destination:?}; declared are: {}",
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    );
    Ok(())
}

impl BreakerArgs {
    fn entry(&self, event_type: &str) -> Entry {
        Entry::new(event_type).object("destination", &self.destination)
    }

    fn details<const N: usize>(&self, more: [(&str, Value); N]) -> Map<String, Value> {
        let credential = ("credential".to_owned(), json!(self.credential));
        std::iter::once(credential).chain(more.map(|(name, value)| (name.to_owned(), value))).collect()
    }
}

/// The state of a breaker, and since or until when, for people and in JSON.
struct BreakerState {
    state: &'static str,
    until: Option<Timestamp>,
    about: String,
}

fn state_of(row: &BreakerRow) -> BreakerState {
    let time = |ms: u64| Timestamp::from_millisecond(i64::try_from(ms).unwrap_or(i64::MAX)).ok();
    match &row.breaker.phase {
        SharedPhase::Watched => {
            let processes = row.breaker.votes.len();
            BreakerState {
                state: "closed",
                until: None,
                about: format!("open in {processes} processes, which is no quorum"),
            }
        }
        SharedPhase::Open { until_ms, pause_ms } => BreakerState {
            state: "open",
            until: time(*until_ms),
            about: format!("a probe after a pause of {pause_ms} ms"),
        },
        SharedPhase::Probing { holder, until_ms, .. } => {
            BreakerState { state: "probing", until: time(*until_ms), about: format!("by process {holder}") }
        }
        SharedPhase::Isolated { by, why, until_ms } => {
            BreakerState { state: "isolated", until: until_ms.and_then(time), about: format!("by {by}: {why}") }
        }
    }
}

fn to_json(row: &BreakerRow) -> Value {
    let BreakerState { state, until, about } = state_of(row);
    json!({"destination": row.destination, "credential": row.credential, "state": state, "until": until, "about": about,
           "processes": row.breaker.votes.len()})
}

fn print(rows: &[BreakerRow], width: WidthArgs) {
    let mut table =
        TextTable::new(&[text("destination"), text("credential"), fixed("state"), fixed("until"), text("about")]);
    for row in rows {
        let BreakerState { state, until, about } = state_of(row);
        let until = until.map_or("-".to_owned(), |until| until.to_string());
        let credential = if row.credential.is_empty() { "-" } else { &row.credential };
        table.row([row.destination.as_str(), credential, state, &until, &about]);
    }
    table.print(width, "every breaker is closed");
}
