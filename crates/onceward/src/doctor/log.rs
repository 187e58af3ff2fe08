//! The message log: partitions that come and go, lanes that move, and what is put aside.

use super::{Finding, Patient, store, words};
use std::collections::BTreeSet;

const SCHEDULER: &str = "run `onceward serve --role scheduler`, and read its log";
const HOUR_S: f64 = 3_600.0;

/// A partition, with times in seconds ago.
struct Epoch {
    number: i32,
    opened_s: f64,
    closed_s: Option<f64>,
    has_table: bool,
    indexed: bool,
    index_tries: i32,
}

pub(super) async fn partitions(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let rows = patient.ask(store::EPOCHS, &[]).await?;
    let epochs: Vec<Epoch> = rows
        .iter()
        .map(|row| Epoch {
            number: row.get(0),
            opened_s: row.get(1),
            closed_s: row.get(2),
            has_table: row.get(3),
            indexed: row.get(4),
            index_tries: row.get(5),
        })
        .collect();
    let retention = patient.config.retention();
    let mut findings = judge(&epochs, retention.epoch_s as f64);
    let stuck =
        |epoch: &&Epoch| epoch.has_table && epoch.closed_s.is_some_and(|s| s > retention.keep_s as f64 + 24.0 * HOUR_S);
    if let Some(epoch) = epochs.iter().find(stuck) {
        findings.push(why_it_stays(patient, epoch).await?);
    }
    for row in patient.ask(store::UNLISTED_PARTITIONS, &[]).await? {
        let name: &str = row.get(0);
        let advice = "it will never be dropped: detach it, and drop it once nobody needs what is in it";
        findings.push(Finding::warning(
            format!("onceward.{name} is a partition that onceward.log_epoch does not name"),
            advice,
        ));
    }
    Ok(findings)
}

fn judge(epochs: &[Epoch], epoch_s: f64) -> Vec<Finding> {
    let mut findings = Vec::new();
    for epoch in epochs {
        let number = epoch.number;
        match epoch.closed_s {
            None if epoch.opened_s > 2.0 * epoch_s + HOUR_S => {
                let what =
                    format!("partition {number} is open for {}: nobody opens the next one", words(epoch.opened_s));
                findings.push(Finding::warning(what, SCHEDULER));
            }
            Some(closed_s) if closed_s > 24.0 * HOUR_S && !epoch.indexed => {
                let what =
                    format!("partition {number} has no index for `trace` yet, after {} tries", epoch.index_tries);
                findings.push(Finding::warning(what, SCHEDULER));
            }
            _ => {}
        }
        if !epoch.has_table {
            let advice = format!(
                "restore it, or run `DELETE FROM onceward.log_epoch WHERE epoch = {number}` if it is gone for good"
            );
            findings.push(Finding::critical(format!("partition {number} is listed and not there"), advice));
        }
    }
    findings
}

async fn why_it_stays(patient: &Patient<'_>, epoch: &Epoch) -> anyhow::Result<Finding> {
    let unread = patient.ask(&store::unread_in(epoch.number), &[]).await?;
    let queues: Vec<String> =
        unread.iter().map(|row| format!("{} ({} lanes)", row.get::<_, &str>(0), row.get::<_, i64>(1))).collect();
    let what = format!(
        "partition {} should have been dropped, and closed {} ago",
        epoch.number,
        words(epoch.closed_s.unwrap_or(0.0))
    );
    Ok(if queues.is_empty() {
        Finding::warning(what, SCHEDULER)
    } else {
        let advice = format!(
            "these queues have still to read it: {}; run their consumers, or take queues that nobody reads out of the routes \
             (`onceward topology check`)",
            queues.join(", ")
        );
        Finding::warning(what, advice)
    })
}

pub(super) async fn lanes(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let read: BTreeSet<&str> = patient.platform.consumers().map(|consumer| consumer.queue()).collect();
    let mut findings = Vec::new();
    for row in patient.ask(store::STUCK_LANES, &[&patient.long_s()]).await? {
        let queue: &str = row.get(0);
        findings.push(stuck(queue, row.get(1), row.get(2), row.get(3), read.contains(queue)));
    }
    for row in patient.ask(store::FALLEN_WORKERS, &[]).await? {
        let (queue, starts): (&str, i32) = (row.get(0), row.get(1));
        findings.push(Finding::warning(
            format!(
                "a turn in {queue} was begun {starts} times without an end: workers die in it, or lose the database"
            ),
            "read the workers' logs; the message that does it becomes a dead letter at the queue's delivery limit",
        ));
    }
    Ok(findings)
}

fn stuck(queue: &str, lanes: i64, oldest_s: f64, held: i64, read_here: bool) -> Finding {
    let what =
        format!("{lanes} lanes of {queue} have not moved although messages wait, the oldest for {}", words(oldest_s));
    let advice = if held > 0 {
        format!("a worker is in {held} of them: its handler takes long or hangs; read its log")
    } else if queue.starts_with('@') {
        "no relay is in them: run `onceward serve --role relay`".to_owned()
    } else if read_here {
        "no worker is in them: run `onceward serve --role worker`".to_owned()
    } else {
        "no consumer of this program reads the queue: run the one that does, or see `onceward topology check`"
            .to_owned()
    };
    Finding::critical(what, advice)
}

pub(super) async fn put_aside(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let rows = patient.ask(store::OVERDUE_ASIDE, &[&patient.long_s()]).await?;
    let findings = rows.iter().map(|row| {
        let (queue, count, seconds): (&str, i64, f64) = (row.get(0), row.get(1), row.get(2));
        let what = format!("{count} messages put aside in {queue} are overdue, up to {}", words(seconds));
        Finding::critical(
            what,
            "no worker takes them: run the queue's consumer (`onceward serve --role worker`), or its relay",
        )
    });
    Ok(findings.collect())
}

pub(super) async fn schedules(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let names: Vec<&str> = patient.platform.timetables().iter().map(|timetable| timetable.name()).collect();
    let rows = patient.ask(store::OVERDUE_SCHEDULES, &[&names, &patient.long_s()]).await?;
    let findings = rows.iter().map(|row| {
        let (name, seconds): (&str, f64) = (row.get(0), row.get(1));
        Finding::critical(format!("the schedule {name} is overdue for {}", words(seconds)), SCHEDULER)
    });
    Ok(findings.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: f64 = 24.0 * HOUR_S;

    fn epoch(opened_s: f64, closed_s: Option<f64>) -> Epoch {
        Epoch { number: 3, opened_s, closed_s, has_table: true, indexed: false, index_tries: 4 }
    }

    #[test]
    fn partitions_that_come_and_go_in_time_are_fine() {
        let closed = Epoch { indexed: true, ..epoch(3.0 * DAY_S, Some(2.0 * DAY_S)) };
        assert_eq!(judge(&[closed, epoch(2.0 * DAY_S, Some(HOUR_S)), epoch(DAY_S, None)], DAY_S), []);
    }

    #[test]
    fn partitions_that_are_old_unsearchable_or_gone_are_found() {
        let words = |epoch: Epoch| judge(&[epoch], DAY_S).remove(0).what;
        assert!(words(epoch(4.0 * DAY_S, None)).contains("nobody opens the next one"));
        assert!(words(epoch(4.0 * DAY_S, Some(3.0 * DAY_S))).contains("no index"));
        assert!(words(Epoch { has_table: false, ..epoch(HOUR_S, None) }).contains("not there"));
    }

    #[test]
    fn a_stuck_lane_says_who_is_missing() {
        let advice = |queue, held, read| stuck(queue, 1, 400.0, held, read).advice;
        assert!(advice("q", 1, true).contains("hangs"));
        assert!(advice("q", 0, true).contains("--role worker"));
        assert!(advice("q", 0, false).contains("topology check"));
        assert!(advice("@outbox", 0, false).contains("--role relay"));
    }
}
