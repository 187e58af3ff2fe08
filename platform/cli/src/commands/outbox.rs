//! `outbox`: the messages on their way to an external bus.

use super::{EXIT_NOTHING_TO_DO, dlq::requeue_outbox_dead_letters};
use crate::outbox_report::OutboxReport;
use crate::table::{WidthArgs, paragraph};
use onceward::{
    Config, Platform,
    admin::backlog::{QueueBacklog, queue_backlogs},
    connect,
};
use onceward_broker::BusKind;
use onceward_db::Db;
use onceward_message_log::{
    outbox,
    stats::at_least,
    triage::Operator,
    unrouted::{self, UnroutedMessages},
};
use serde_json::json;
use std::{process::ExitCode, time::Duration};
use uuid::Uuid;

/// How long the bus may take to report what it holds.
pub(super) const BUS_TIMEOUT: Duration = Duration::from_secs(3);

/// How many event types without a queue are listed.
const UNROUTED_SHOWN: usize = 20;

/// The width of the labels of `outbox status`.
const LABEL: usize = 14;

/// Commands about the outbox.
#[derive(Debug, clap::Subcommand)]
pub enum OutboxCommand {
    /// Show the messages that wait to be published to the bus, the reason, and the relays
    ///
    /// Exit status: 0 if all is well, 1 if messages wait because no relay is running or none reaches the bus.
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        width: WidthArgs,
    },
    /// Immediately retry messages that the bus refused
    ///
    /// Without --dead: messages that wait for their next attempt. Exit status: 0 if any were retried, 3 if there were none.
    Retry(RetryArgs),
}

/// Arguments of `outbox retry`.
#[derive(Debug, clap::Args)]
pub struct RetryArgs {
    /// Only the message of this event
    #[arg(long, value_name = "EVENT_ID")]
    pub(super) id: Option<Uuid>,
    /// Retry messages that were given up instead: requeues dead letters, like `dlq requeue --queue @outbox --all`
    #[arg(long, requires = "why")]
    dead: bool,
    /// The reason, which is kept in the audit trail permanently
    #[arg(long, value_name = "TEXT", value_parser = super::operator::non_empty_text)]
    pub(super) why: Option<String>,
    /// The person who acts, if not the account that runs this command
    #[arg(long = "as", value_name = "NAME", default_value_t = super::account::name(), value_parser = super::operator::non_empty_text)]
    pub(super) name: String,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(platform: &Platform, config: &Config, command: OutboxCommand) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    match command {
        OutboxCommand::Status { json, width } => {
            let (report, counts) = load_status(platform, config, &db).await?;
            if json {
                print_json(&report, counts.as_ref())
            } else {
                print(&report, counts.as_ref(), width)
            }
            Ok(ExitCode::from(u8::from(report.problem().is_some())))
        }
        OutboxCommand::Retry(args) if args.dead => requeue_outbox_dead_letters(&db, args).await,
        OutboxCommand::Retry(args) => retry(&db, args).await,
    }
}

async fn retry(db: &Db, args: RetryArgs) -> anyhow::Result<ExitCode> {
    let why = args.why.clone().unwrap_or_else(|| "retried now".to_owned());
    let operator = Operator { name: args.name.clone(), why };
    let retried = outbox::retry(db, args.id, &operator).await?;
    if args.json {
        println!("{}", json!({ "offered": retried }));
    }
    if retried == 0 {
        match args.id {
            Some(id) => eprintln!(
                "the message of event {id} is not waiting to be retried: it was published, was given up \
                 (see `onceward dlq list --queue @outbox`), or waits behind another message of its key"
            ),
            None => eprintln!("no refused messages are waiting to be retried"),
        }
        return Ok(ExitCode::from(EXIT_NOTHING_TO_DO));
    }
    if !args.json {
        println!("{retried} retried now");
    }
    Ok(ExitCode::SUCCESS)
}

/// The messages that the bus holds, by queue, or the reason why they are unknown. `None` where PostgreSQL is the bus.
type BusBacklog = Option<Result<Vec<QueueBacklog>, String>>;

async fn load_status(platform: &Platform, config: &Config, db: &Db) -> anyhow::Result<(OutboxReport, BusBacklog)> {
    let report = OutboxReport::load(db, config.bus_kind().map_err(anyhow::Error::msg)?, platform).await?;
    let broker = connect::connect_with_positions(config, platform.topology(), db)?;
    let (topology, prefetch) = (platform.topology(), config.bus.prefetch);
    let counts = match &broker {
        Some(broker) => Some(queue_backlogs(broker.as_ref(), db, topology, BUS_TIMEOUT, prefetch).await),
        None => None,
    };
    Ok((report, counts))
}

fn print_json(report: &OutboxReport, counts: Option<&Result<Vec<QueueBacklog>, String>>) {
    let mut shown = json!(report);
    shown["trouble"] = json!(report.problem());
    shown["onTheBus"] = json!(counts.and_then(|counts| counts.as_ref().ok()));
    shown["busError"] = json!(counts.and_then(|counts| counts.as_ref().err()));
    println!("{shown}");
}

fn print(report: &OutboxReport, counts: Option<&Result<Vec<QueueBacklog>, String>>, width: WidthArgs) {
    print!("{}", wrap_lines(&lines(report, counts), width.columns()));
    if let Some(problem) = report.problem() {
        eprintln!("{problem}");
    }
}

/// Returns each line after its label, wrapped to `width`.
fn wrap_lines(lines: &[StatusLine], width: Option<usize>) -> String {
    lines.iter().map(|(label, text)| paragraph(&format!("{label:<LABEL$}"), text, LABEL, width)).collect()
}

/// A label, which is empty on lines that belong to the one above, and its text.
type StatusLine = (&'static str, String);

fn lines(report: &OutboxReport, counts: Option<&Result<Vec<QueueBacklog>, String>>) -> Vec<StatusLine> {
    let mut lines = relay_lines(report);
    let unpublished = at_least(report.unpublished, report.unpublished_is_more);
    lines.push(("unpublished", format!("{unpublished}, the oldest {:.1} s old", report.oldest_seconds)));
    let due_ms = report.next_due_ms.filter(|_| report.refused > 0);
    let next = due_ms.map(|ms| format!(", next attempt in {:.1} s", ms as f64 / 1000.0));
    lines.push(("refused", format!("{}{}", report.refused, next.unwrap_or_default())));
    lines.extend(report.last_refusal.as_ref().map(|error| ("", error.escape_debug().to_string())));
    let dead = at_least(report.dead, report.dead_is_more);
    let how = if report.dead > 0 { ": `onceward dlq list --queue @outbox`" } else { "" };
    lines.push(("dead", format!("{dead}{how}")));
    lines.extend(unrouted_lines(report));
    match counts {
        Some(Ok(counts)) => lines.extend(counts.iter().map(|QueueBacklog { queue, waiting, .. }| {
            let waiting = waiting.map_or("unknown".to_owned(), |waiting| waiting.to_string());
            ("on the bus", format!("{queue} {waiting}"))
        })),
        Some(Err(error)) => lines.push(("on the bus", format!("unknown: {error}"))),
        None => {}
    }
    lines
}

/// Returns the lines about the bus and the relays that publish to it.
fn relay_lines(report: &OutboxReport) -> Vec<StatusLine> {
    let OutboxReport { bus, settings, .. } = report;
    let mut lines = vec![match bus == settings {
        true => ("bus", bus.clone()),
        false => {
            ("bus", format!("{bus}; the settings name {settings}: set BROKER_URL, or run `onceward migrate` to switch"))
        }
    }];
    if bus == BusKind::Postgres.name() {
        lines.push(("", "the commit publishes; nothing waits and no relay is needed".to_owned()));
    }
    lines.extend(report.relays.iter().map(|relay| {
        let state = match (relay.alive, relay.up) {
            (false, _) => "has stopped reporting".to_owned(),
            (true, true) => format!("up since {}", relay.since),
            (true, false) => {
                format!("down since {}: {}", relay.since, relay.last_error.as_deref().unwrap_or("no reason given"))
            }
        };
        ("relay", format!("{} {state}", relay.relay))
    }));
    lines
}

/// Returns the lines about messages that no consumer will handle, and about facts that need none.
fn unrouted_lines(report: &OutboxReport) -> Vec<StatusLine> {
    let mut lines = event_type_lines("unrouted", &report.unrouted);
    if !report.unsubscribed.is_empty() {
        lines.extend(event_type_lines("unsubscribed", &report.unsubscribed));
    }
    lines
}

/// Returns one line per type; the list is short.
fn event_type_lines(label: &'static str, types: &[UnroutedMessages]) -> Vec<StatusLine> {
    let (messages, is_more) = unrouted::total(types);
    let mut lines = vec![(label, at_least(messages, is_more))];
    lines.extend(types.iter().take(UNROUTED_SHOWN).map(|one| {
        let (messages, example) = (at_least(one.messages, one.is_more), one.example_topic.escape_debug());
        ("", format!("{messages} {}, for example {example}", one.event_type))
    }));
    if types.len() > UNROUTED_SHOWN {
        let others = types.len() - UNROUTED_SHOWN;
        lines.push(("", format!("and {others} other event types; --json lists them")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_fits_the_terminal_and_keeps_its_labels_aligned() {
        let lines: [StatusLine; 2] = [
            ("bus", "redis; the settings name postgres: set BROKER_URL, or run `onceward migrate`".to_owned()),
            ("", "the server reported something that takes more than one line of a narrow terminal".to_owned()),
        ];
        assert!(wrap_lines(&lines, None).starts_with("bus           redis; the settings name postgres: set"));
        let narrow = wrap_lines(&lines, Some(50));
        assert!(narrow.lines().all(|line| line.chars().count() <= 50), "{narrow}");
        assert!(narrow.lines().skip(1).all(|line| line.starts_with("              ")), "{narrow}");
    }
}
