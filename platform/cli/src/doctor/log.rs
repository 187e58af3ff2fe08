//! The message log: creating and dropping partitions, lanes that make progress, and deferred messages.

use super::{CheckContext, DoctorFinding, humanize, store};
use onceward_db::lock_class;
use onceward_message_log::stats::at_least;
use std::collections::BTreeSet;

const RUN_SCHEDULER: &str = "run `onceward serve --role scheduler`, and read its log";
const HOUR_S: f64 = 3_600.0;

/// A partition of the log, with its times as seconds ago.
struct PartitionState {
    number: i32,
    opened_s: f64,
    closed_s: Option<f64>,
    has_table: bool,
    indexed: bool,
    index_tries: i32,
}

pub(super) async fn partitions(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let rows = context.query(store::EPOCHS, &[]).await?;
    let epochs: Vec<PartitionState> = rows
        .iter()
        .map(|row| PartitionState {
            number: row.get(0),
            opened_s: row.get(1),
            closed_s: row.get(2),
            has_table: row.get(3),
            indexed: row.get(4),
            index_tries: row.get(5),
        })
        .collect();
    let retention = context.config.retention();
    let mut findings = evaluate(&epochs, retention.epoch_s as f64);
    let is_retained = |epoch: &&PartitionState| {
        epoch.has_table && epoch.closed_s.is_some_and(|s| s > retention.keep_s as f64 + 24.0 * HOUR_S)
    };
    if let Some(epoch) = epochs.iter().find(is_retained) {
        findings.push(explain_retained(context, epoch).await?);
    }
    for row in context.query(store::UNLISTED_PARTITIONS, &[]).await? {
        let name: &str = row.get(0);
        let advice = "it will never be dropped: detach it, and drop it once its messages are no longer needed";
        findings.push(DoctorFinding::warning(
            format!("onceward.{name} is a partition that onceward.log_epoch does not list"),
            advice,
        ));
    }
    Ok(findings)
}

fn evaluate(epochs: &[PartitionState], epoch_s: f64) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for epoch in epochs {
        let number = epoch.number;
        match epoch.closed_s {
            None if epoch.opened_s > 2.0 * epoch_s + HOUR_S => {
                let what = format!(
                    "partition {number} has been open for {}: no process opens the next one",
                    humanize(epoch.opened_s)
                );
                findings.push(DoctorFinding::warning(what, RUN_SCHEDULER));
            }
            Some(closed_s) if closed_s > 24.0 * HOUR_S && !epoch.indexed => {
                let what = format!("partition {number} has no index for `trace` after {} attempts", epoch.index_tries);
                findings.push(DoctorFinding::warning(what, RUN_SCHEDULER));
            }
            _ => {}
        }
        if !epoch.has_table {
            let advice =
                format!("restore it, or run `DELETE FROM onceward.log_epoch WHERE epoch = {number}` if it is lost");
            findings.push(DoctorFinding::critical(format!("partition {number} is listed but does not exist"), advice));
        }
    }
    findings
}

async fn explain_retained(context: &CheckContext<'_>, epoch: &PartitionState) -> anyhow::Result<DoctorFinding> {
    let unread = context.query(&store::unread_in(epoch.number), &[]).await?;
    let queues: Vec<String> =
        unread.iter().map(|row| format!("{} ({} lanes)", row.get::<_, &str>(0), row.get::<_, i64>(1))).collect();
    let what = format!(
        "partition {} was closed {} ago and should have been dropped",
        epoch.number,
        humanize(epoch.closed_s.unwrap_or(0.0))
    );
    Ok(if queues.is_empty() {
        DoctorFinding::warning(what, RUN_SCHEDULER)
    } else {
        let advice = format!(
            "these queues have not finished reading it: {}; run their consumers, or remove queues without a consumer from \
             the topology (`onceward topology check`)",
            queues.join(", ")
        );
        DoctorFinding::warning(what, advice)
    })
}

pub(super) async fn lanes(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let read: BTreeSet<&str> = context.platform.consumers().map(|consumer| consumer.queue()).collect();
    let mut findings = Vec::new();
    for row in context.query(store::STUCK_LANES, &[&context.stalled_after_s(), &lock_class::LANE]).await? {
        let queue: &str = row.get(0);
        findings.push(stuck(queue, row.get(1), row.get(2), row.get(3), read.contains(queue)));
    }
    for row in context.query(store::UNFINISHED_TURNS, &[]).await? {
        let (queue, starts): (&str, i32) = (row.get(0), row.get(1));
        findings.push(DoctorFinding::warning(
            format!(
                "a turn of {queue} was started {starts} times and never finished: workers crash in it, or lose the database"
            ),
            "read the workers' logs; the message that causes it becomes a dead letter at the queue's delivery limit",
        ));
    }
    Ok(findings)
}

fn stuck(queue: &str, lanes: i64, oldest_s: f64, held: i64, read_here: bool) -> DoctorFinding {
    let what = format!(
        "{lanes} lanes of {queue} make no progress although messages wait, the oldest for {}",
        humanize(oldest_s)
    );
    let advice = if held > 0 {
        format!("a worker holds {held} of them: its handler is slow or hangs; read its log")
    } else if queue.starts_with('@') {
        "no relay reads them: run `onceward serve --role relay`".to_owned()
    } else if read_here {
        "no worker reads them: run `onceward serve --role worker`".to_owned()
    } else {
        "no consumer of this program reads the queue: run the program that does, or see `onceward topology check`"
            .to_owned()
    };
    DoctorFinding::critical(what, advice)
}

pub(super) async fn deferred(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let rows = context.query(store::OVERDUE_DEFERRED, &[&context.stalled_after_s()]).await?;
    let findings = rows.iter().map(|row| {
        let (queue, count, seconds): (&str, i64, f64) = (row.get(0), row.get(1), row.get(2));
        let what = format!("{count} deferred messages of {queue} are overdue by up to {}", humanize(seconds));
        DoctorFinding::critical(
            what,
            "no worker handles them: run the queue's consumer (`onceward serve --role worker`), or its relay",
        )
    });
    Ok(findings.collect())
}

pub(super) async fn unknown_messages(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let rows = context.query(store::UNKNOWN_MESSAGES, &[]).await?;
    let hours = context.config.workers.unknown_hours;
    let findings = rows.iter().map(|row| {
        let (queue, seconds, types): (&str, f64, Vec<String>) = (row.get(0), row.get(3), row.get(4));
        let count = at_least(row.get(1), row.get(2));
        let what = format!(
            "no running worker knows {} in {queue}: {count} messages have waited for up to {}, and later ones of their keys wait with them",
            types.join(", "),
            humanize(seconds)
        );
        let then = match hours {
            0 => "they wait indefinitely (workers.unknown_hours = 0)".to_owned(),
            hours => format!("after {hours} h they become dead letters (unknown_type)"),
        };
        DoctorFinding::warning(what, format!("run a worker that handles them, or correct their publisher; {then}"))
    });
    Ok(findings.collect())
}

pub(super) async fn schedules(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let names: Vec<&str> = context.platform.schedules().iter().map(|timetable| timetable.name()).collect();
    let rows = context.query(store::OVERDUE_SCHEDULES, &[&names, &context.stalled_after_s()]).await?;
    let findings = rows.iter().map(|row| {
        let (name, seconds): (&str, f64) = (row.get(0), row.get(1));
        DoctorFinding::critical(format!("the schedule {name} is overdue by {}", humanize(seconds)), RUN_SCHEDULER)
    });
    let mut findings: Vec<DoctorFinding> = findings.collect();
    for row in context.query(store::FAILING_SCHEDULES, &[&names]).await? {
        let (name, seconds, error): (&str, f64, &str) = (row.get(0), row.get(1), row.get(2));
        let what = format!("the schedule {name} has been unable to publish for {}: {error}", humanize(seconds));
        findings.push(DoctorFinding::critical(
            what,
            "correct its topic, event type or schema; publishing is retried every second",
        ));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: f64 = 24.0 * HOUR_S;

    fn epoch(opened_s: f64, closed_s: Option<f64>) -> PartitionState {
        PartitionState { number: 3, opened_s, closed_s, has_table: true, indexed: false, index_tries: 4 }
    }

    #[test]
    fn partitions_that_are_opened_and_closed_on_time_are_fine() {
        let closed = PartitionState { indexed: true, ..epoch(3.0 * DAY_S, Some(2.0 * DAY_S)) };
        assert_eq!(evaluate(&[closed, epoch(2.0 * DAY_S, Some(HOUR_S)), epoch(DAY_S, None)], DAY_S), []);
    }

    #[test]
    fn partitions_that_are_overdue_unindexed_or_missing_are_reported() {
        let what = |epoch: PartitionState| evaluate(&[epoch], DAY_S).remove(0).what;
        assert!(what(epoch(4.0 * DAY_S, None)).contains("no process opens the next one"));
        assert!(what(epoch(4.0 * DAY_S, Some(3.0 * DAY_S))).contains("no index"));
        assert!(what(PartitionState { has_table: false, ..epoch(HOUR_S, None) }).contains("does not exist"));
    }

    #[test]
    fn advice_for_a_stuck_lane_names_the_missing_process() {
        let advice = |queue, held, read| stuck(queue, 1, 400.0, held, read).advice;
        assert!(advice("q", 1, true).contains("hangs"));
        assert!(advice("q", 0, true).contains("--role worker"));
        assert!(advice("q", 0, false).contains("topology check"));
        assert!(advice("@outbox", 0, false).contains("--role relay"));
    }
}
