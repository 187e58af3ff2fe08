//! The platform's own objectives, which hold for every message.

use super::{Alert, Severity, Slo};
use onceward_message_log::routes::OUTBOX;
use onceward_messaging::measure::{
    BUS_BACKLOG_KNOWN, BUS_UP, CONSUMER_LAG_SECONDS, CONSUMER_RUNTIME_MS, CONSUMERS_ONLINE, DEAD_LETTERS,
    DEAD_LETTERS_OPEN, MESSAGES_PROCESSED, QUEUE_DEPTH, RELAY_DEAD, RELAY_PUBLISHED, RELAY_RETRIED,
};
use onceward_outbound::{OPEN_SECONDS, STATE};

/// Returns all of them.
pub fn slos() -> Vec<Slo> {
    vec![
        relay_lag(),
        publish_success(),
        consumer_lag(),
        consumer_heartbeat(),
        consumer_runtime(),
        dead_letter_rate(),
        hourly_dead_letter_rate(),
        open_breakers(),
    ]
}

fn relay_lag() -> Slo {
    Slo::new("relay-lag", "Committed messages reach the bus within 60 seconds")
        // Every API process reads the same database, so the largest value is the most recent.
        .record("onceward:relay_lag_seconds:max", format!("max({CONSUMER_LAG_SECONDS}{{queue=\"{OUTBOX}\"}})"))
        .alert(Alert {
            alert: "OncewardRelayLag",
            expr: "onceward:relay_lag_seconds:max > 60".into(),
            for_s: 60,
            severity: Severity::Page,
            summary: "Committed messages have waited for the bus for more than a minute.",
            runbook: "Requests continue and nothing is lost. `onceward outbox status` shows whether the bus, the relay or a refused \
                      message delays them. If no relay is running, start a process with `--role relay`.",
        })
}

fn publish_success() -> Slo {
    let rate = |metric: &str| format!("sum(rate({metric}[5m]))");
    let (published, retried, dead) = (rate(RELAY_PUBLISHED), rate(RELAY_RETRIED), rate(RELAY_DEAD));
    Slo::new("publish-success", "Of the messages offered to the bus, 99.9 % are accepted")
        .record("onceward:publish_success:ratio5m", format!("{published} / ({published} + {retried} + {dead})"))
        .alert(Alert {
            alert: "OncewardPublishFailures",
            expr: "onceward:publish_success:ratio5m < 0.999".into(),
            for_s: 300,
            severity: Severity::Ticket,
            summary: "The bus refuses more than one message in a thousand.",
            runbook: "`onceward outbox status` shows the last refusal. `onceward topology check` finds queues that differ from \
                      the declaration. Correct the cause, then run `onceward outbox retry` to retry them at once.",
        })
        .alert(Alert {
            alert: "OncewardBusUnreachable",
            // One relay that reaches the bus is enough.
            expr: format!("max by (bus) ({BUS_UP}) == 0"),
            for_s: 120,
            severity: Severity::Page,
            summary: "No relay reaches the bus.",
            runbook: "Messages wait in the outbox and requests continue. Check the broker, then `BROKER_URL` and its password. \
                      The messages are published in order once the broker is reachable.",
        })
}

fn consumer_lag() -> Slo {
    Slo::new("consumer-lag", "No message waits longer than five minutes for its consumer")
        .record(
            "onceward:consumer_lag_seconds:max",
            format!("max by (queue) ({CONSUMER_LAG_SECONDS}{{queue!=\"{OUTBOX}\"}})"),
        )
        .alert(Alert {
            alert: "OncewardConsumerLag",
            // The lag includes messages that wait for a later attempt. The depth does not: without it, one message that
            // is to be retried in an hour would page.
            expr: format!("onceward:consumer_lag_seconds:max > 300 and on (queue) max by (queue) ({QUEUE_DEPTH}) > 0"),
            for_s: 300,
            severity: Severity::Page,
            summary: "The oldest message of a queue has waited for more than five minutes.",
            runbook: "`onceward queues` shows how many messages wait, `onceward doctor` what delays them. Start more processes with \
                      `--role worker`; that does not help a single key, whose messages are handled one at a time.",
        })
        .alert(Alert {
            alert: "OncewardBusBacklogUnknown",
            // One process that can count is enough.
            expr: format!("max by (bus) ({BUS_BACKLOG_KNOWN}) == 0"),
            for_s: 300,
            severity: Severity::Ticket,
            summary: "Depth and lag do not include messages on the external bus, so other alerts may not fire.",
            runbook: "The log of an API process says why (`counting the messages on the bus failed`). `onceward topology check` \
                      lists queues that are missing on the bus; `onceward topology declare` creates them.",
        })
}

/// LoanServe's heartbeat: nothing was processed for two minutes while messages wait. An idle queue does not count.
fn consumer_heartbeat() -> Slo {
    let old = format!("max by (queue) ({CONSUMER_LAG_SECONDS}{{queue!=\"{OUTBOX}\"}}) > 120");
    // A message that waits for a later attempt is old but not to be handled now: it counts in the lag but not in the
    // depth.
    let waiting = format!("{old} and on (queue) max by (queue) (min_over_time({QUEUE_DEPTH}[2m])) > 0");
    // A queue that was never read has no counter at all, so this tests for a missing series and not for a zero.
    let processed = format!("sum by (queue) (increase({MESSAGES_PROCESSED}[2m])) > 0");
    Slo::new("consumer-heartbeat", "A queue with waiting messages makes progress at least every two minutes")
        .record("onceward:consumers_online:sum", format!("sum by (queue) ({CONSUMERS_ONLINE})"))
        .alert(Alert {
            alert: "OncewardConsumerHeartbeatMissed",
            expr: format!("{waiting} unless on (queue) {processed}"),
            for_s: 0,
            severity: Severity::Page,
            summary: "Messages have waited in a queue for two minutes, and none was processed in that time.",
            runbook: "`onceward:consumers_online:sum` is the number of running consumers of the queue. If it is 0, start a process \
                      with `--role worker`. Otherwise `onceward doctor` finds what delays them.",
        })
        .alert(Alert {
            alert: "OncewardConsumersOffline",
            expr: "onceward:consumers_online:sum == 0".into(),
            for_s: 120,
            severity: Severity::Page,
            summary: "A worker process is running, but no consumer of a queue is.",
            runbook: "The log of the process says why its consumer stopped. Restart the process. Messages wait meanwhile and \
                      nothing is lost.",
        })
}

fn open_breakers() -> Slo {
    let breakers = |states: &str| format!("max by (destination) ({STATE}{{state=~\"{states}\"}}) > 0");
    // One credential or one process that can call is enough: a customer's dead endpoint is the customer's.
    let expr = format!("{} unless on (destination) {}", breakers("open|isolated"), breakers("closed|half_open"));
    Slo::new("destinations", "Every system that services call can be called")
        .record("onceward:breaker_open:ratio1h", format!("max by (destination) (rate({OPEN_SECONDS}[1h]))"))
        .alert(Alert {
            alert: "OncewardBreakerOpen",
            expr,
            for_s: 600,
            severity: Severity::Ticket,
            summary: "Nobody has been able to call a destination for ten minutes; messages that need it wait.",
            runbook: "`onceward breaker list` shows whether it does not answer or who isolated it, and why. It is called again by \
                      itself when a probe succeeds; `onceward breaker close` does not wait for the next probe.",
        })
}

/// LoanServe's runtime alert. Its only objective for handling times is that of creating a loan, three seconds.
fn consumer_runtime() -> Slo {
    Slo::new("consumer-runtime", "95 % of a queue's messages are handled within three seconds")
        .record(
            "onceward:consumer_runtime_ms:p95",
            format!("histogram_quantile(0.95, sum by (queue, le) (rate({CONSUMER_RUNTIME_MS}_bucket[10m])))"),
        )
        .alert(Alert {
            alert: "OncewardConsumerSlow",
            expr: "onceward:consumer_runtime_ms:p95 > 3000".into(),
            for_s: 600,
            severity: Severity::Ticket,
            summary: "Handling takes longer than three seconds for more than one in twenty messages of a queue.",
            runbook: "`onceward queues` shows whether the queue falls behind. Look for slow statements or a slow provider \
                      in its handler; traces contain the span `handle` with the queue's name.",
        })
}

/// The surveys' objective: 0.1 % over five minutes. [`hourly_dead_letter_rate`] is LoanServe's.
fn dead_letter_rate() -> Slo {
    let dead = format!("sum by (queue) (rate({DEAD_LETTERS}[5m]))");
    let settled = format!("sum by (queue) (rate({MESSAGES_PROCESSED}{{result=~\"ok|dead\"}}[5m]))");
    Slo::new("dead-letters", "At most 0.1 % of a queue's messages become dead letters, and none stays open")
        .record("onceward:dead_letters:ratio5m", format!("{dead} / {settled}"))
        .alert(Alert {
            alert: "OncewardDeadLetterRate",
            expr: "onceward:dead_letters:ratio5m > 0.001".into(),
            for_s: 0,
            severity: Severity::Page,
            summary: "More than one in a thousand messages of a queue became a dead letter within five minutes.",
            runbook: "`onceward dlq list --newer-than 1h` lists reasons and errors, `onceward dlq show ID` shows a whole message. \
                      Correct the cause, then run `onceward dlq requeue --all` with the same filters.",
        })
        .alert(Alert {
            alert: "OncewardDeadLettersWait",
            // The rate misses the first one of a process; this does not.
            expr: format!("max by (queue) ({DEAD_LETTERS_OPEN}) > 0"),
            for_s: 900,
            severity: Severity::Ticket,
            summary: "Dead letters of a queue have been open for 15 minutes.",
            runbook: "Run `onceward dlq list --queue QUEUE`, then `onceward dlq requeue` or `onceward dlq quarantine` with a reason.",
        })
}

/// More open dead letters of a queue than this must be handled now and not in working hours.
const MANY_DEAD_LETTERS: u32 = 10;

/// LoanServe's objective: 0.5 % over an hour, and an alert when dead letters pile up for five minutes.
fn hourly_dead_letter_rate() -> Slo {
    let dead = format!("sum by (queue) (increase({DEAD_LETTERS}[1h]))");
    let settled = format!("sum by (queue) (increase({MESSAGES_PROCESSED}{{result=~\"ok|dead\"}}[1h]))");
    Slo::new("dead-letters-hourly", "Over an hour, less than 0.5 % of a queue's messages become dead letters")
        .record("onceward:dead_letters:ratio1h", format!("{dead} / {settled}"))
        .alert(Alert {
            alert: "OncewardDeadLetterRateHourly",
            expr: "onceward:dead_letters:ratio1h >= 0.005".into(),
            for_s: 300,
            severity: Severity::Page,
            summary: "For five minutes, at least one in two hundred messages of a queue's last hour has become a dead letter.",
            runbook: "`onceward dlq list --newer-than 1h` lists reasons and errors. Correct the cause, then run \
                      `onceward dlq requeue --all` with the same filters.",
        })
        .alert(Alert {
            alert: "OncewardDeadLettersMany",
            expr: format!("max by (queue) ({DEAD_LETTERS_OPEN}) > {MANY_DEAD_LETTERS}"),
            for_s: 300,
            severity: Severity::Page,
            summary: "More than ten dead letters of a queue have been open for five minutes.",
            runbook: "`onceward dlq list --queue QUEUE` shows whether they have one cause. Correct it, then run \
                      `onceward dlq requeue --all --queue QUEUE`, or `onceward dlq quarantine` with a reason.",
        })
}
