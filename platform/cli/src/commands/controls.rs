//! `queues pause|resume|limit|unlimit|controls`: what operators set for queues while they are read.

use super::{
    duration,
    operator::{OperatorArgs, OperatorWithReasonArgs},
};
use crate::{
    EXIT_NOTHING_TO_DO,
    table::{TextTable, WidthArgs, fixed, text},
};
use onceward::Config;
use onceward_db::Db;
use onceward_envelope::TenantId;
use onceward_message_log::controls::{self, ControlEntry};
use serde_json::json;
use std::{process::ExitCode, time::Duration};

/// Commands that stop or slow down queues. Every act is recorded in the audit trail.
#[derive(Debug, clap::Subcommand)]
pub enum ControlCommand {
    /// Stop handling a queue, or one tenant in it, for a time
    ///
    /// Workers stop within a second and finish what they have begun. The queue continues by itself, in order, when the time is
    /// over. A pause that exists is replaced.
    Pause {
        #[command(flatten)]
        target: TargetArgs,
        /// How long, such as 30s, 10m or 2h
        #[arg(long = "for", value_name = "TIME", value_parser = pause_time)]
        pause_for: Duration,
        #[command(flatten)]
        operator: OperatorWithReasonArgs,
    },
    /// End a pause now
    Resume {
        #[command(flatten)]
        target: TargetArgs,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Limit how many messages of a queue, or of one tenant in it, are handled, over all workers
    Limit {
        #[command(flatten)]
        target: TargetArgs,
        /// Messages per time, such as 10/s, 600/m or 50/h
        #[arg(long, value_name = "RATE", value_parser = rate)]
        rate: f64,
        /// How many may be handled at once after an idle time [default: the messages of one second, at least 1]
        #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(i32).range(1..=1_000_000))]
        burst: Option<i32>,
        #[command(flatten)]
        operator: OperatorWithReasonArgs,
    },
    /// Remove a rate limit
    Unlimit {
        #[command(flatten)]
        target: TargetArgs,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// List the pauses and rate limits
    Controls {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        width: WidthArgs,
    },
}

/// What is paused or limited.
#[derive(Debug, clap::Args)]
pub struct TargetArgs {
    /// The queue; `@outbox` is what relays publish
    queue: String,
    /// Only this tenant
    #[arg(long, value_name = "ID")]
    tenant: Option<TenantId>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl TargetArgs {
    fn name(&self) -> String {
        describe_target(&self.queue, self.tenant.as_ref().map(TenantId::as_str))
    }

    /// Reports what was done, or that there was nothing to do.
    fn report(&self, done: bool, text: &str) -> ExitCode {
        match (self.json, done) {
            (true, _) => println!("{}", json!({"queue": self.queue, "tenant": self.tenant, "done": done})),
            (false, true) => println!("{text}"),
            (false, false) => eprintln!("{text}"),
        }
        if done { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NOTHING_TO_DO) }
    }
}

/// A longer pause is a change of the topology.
const PAUSE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

fn pause_time(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        time if time.is_zero() => Err("it must be longer than zero".to_owned()),
        time if time > PAUSE_MAX => Err("a pause lasts 30 days at most".to_owned()),
        time => Ok(time),
    }
}

/// Parses a number of messages per unit of time into messages per second.
fn rate(text: &str) -> Result<f64, String> {
    let wrong = || "enter messages per second, minute or hour, like 10/s, 600/m or 50/h".to_owned();
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let count: u32 = count.parse().map_err(|_| wrong())?;
    if count == 0 {
        return Err("it must be more than zero; `onceward queues pause` stops a queue".to_owned());
    }
    Ok(f64::from(count) / seconds)
}

pub(super) async fn run(config: &Config, command: ControlCommand) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    match command {
        ControlCommand::Pause { target, pause_for, operator } => {
            let tenant = target.tenant.as_ref();
            let ends_at = controls::pause(&db, &target.queue, tenant, pause_for, &operator.operator()).await?;
            Ok(target.report(true, &format!("{} is paused until {ends_at}", target.name())))
        }
        ControlCommand::Resume { target, operator } => {
            let operator = operator.operator("resumed");
            match controls::resume(&db, &target.queue, target.tenant.as_ref(), &operator).await? {
                true => Ok(target.report(true, &format!("{} continues", target.name()))),
                false => Ok(target.report(false, &format!("{} is not paused", target.name()))),
            }
        }
        ControlCommand::Limit { target, rate, burst, operator } => {
            let burst = burst.unwrap_or_else(|| rate.ceil().clamp(1.0, 1e6) as i32);
            let tenant = target.tenant.as_ref();
            controls::limit(&db, &target.queue, tenant, rate, burst, &operator.operator()).await?;
            Ok(target.report(true, &format!("{} handles {} at most", target.name(), describe_rate(rate))))
        }
        ControlCommand::Unlimit { target, operator } => {
            let operator = operator.operator("the limit was removed");
            match controls::unlimit(&db, &target.queue, target.tenant.as_ref(), &operator).await? {
                true => Ok(target.report(true, &format!("{} has no limit any more", target.name()))),
                false => Ok(target.report(false, &format!("{} has no limit", target.name()))),
            }
        }
        ControlCommand::Controls { json, width } => {
            print_controls(&controls::list(&db).await?, json, width);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn print_controls(entries: &[ControlEntry], as_json: bool, width: WidthArgs) {
    if as_json {
        return entries.iter().for_each(|entry| println!("{}", json!(entry)));
    }
    let mut table = TextTable::new(&[text("queue"), text("tenant"), fixed("set"), text("by"), text("why")]);
    for entry in entries {
        let tenant = entry.tenant.clone().unwrap_or_else(|| "all".to_owned());
        table.row([entry.queue.clone(), tenant, describe_control(entry), entry.set_by.clone(), entry.why.clone()]);
    }
    table.print(width, "nothing is paused or limited");
}

/// Describes a pause or a rate limit in one sentence.
pub(super) fn describe(entry: &ControlEntry) -> String {
    let target = describe_target(&entry.queue, entry.tenant.as_deref());
    format!("{target} is {} by {}: {}", describe_control(entry), entry.set_by, entry.why)
}

fn describe_target(queue: &str, tenant: Option<&str>) -> String {
    tenant.map_or_else(|| queue.to_owned(), |tenant| format!("tenant {tenant} in {queue}"))
}

fn describe_control(entry: &ControlEntry) -> String {
    match (entry.ends_at, entry.per_second) {
        (Some(ends_at), _) => format!("paused until {ends_at}"),
        (None, Some(per_second)) => format!("limited to {}", describe_rate(per_second)),
        (None, None) => "not limited".to_owned(),
    }
}

/// Describes a rate in the largest unit in which it is a whole number.
fn describe_rate(per_second: f64) -> String {
    for (unit, seconds) in [("second", 1.0), ("minute", 60.0), ("hour", 3600.0)] {
        let count = per_second * seconds;
        if (count - count.round()).abs() < 1e-6 * count {
            return format!("{} messages per {unit}", count.round());
        }
    }
    format!("{per_second:.3} messages per second")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_messages_per_unit_and_is_described_in_a_whole_number() {
        for (given, described) in [
            ("10/s", "10 messages per second"),
            ("90/m", "90 messages per minute"),
            ("600/m", "10 messages per second"),
            ("50/h", "50 messages per hour"),
        ] {
            assert_eq!(describe_rate(rate(given).unwrap()), described);
        }
        for wrong in ["", "10", "0/s", "-1/s", "1.5/s", "10/d", "/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pause_has_an_end() {
        assert_eq!(pause_time("10m"), Ok(Duration::from_secs(600)));
        assert!(pause_time("0s").is_err() && pause_time("31d").is_err() && pause_time("forever").is_err());
    }
}
