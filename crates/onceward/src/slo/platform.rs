//! What the platform itself promises about every message.

use super::{Alert, Severity, Slo};
use onceward_messaging::measure::{
    BUS_UP, CONSUMER_LAG_SECONDS, DEAD_LETTERS, DEAD_LETTERS_OPEN, MESSAGES_PROCESSED, RELAY_DEAD, RELAY_PUBLISHED,
    RELAY_RETRIED,
};
use onceward_transport_postgres::routes::OUTBOX;

/// All of them.
pub fn slos() -> Vec<Slo> {
    vec![relay_lag(), publish_success(), consumer_lag(), dead_letter_rate()]
}

fn relay_lag() -> Slo {
    Slo::new("relay-lag", "What is committed reaches the bus within 60 seconds")
        // Every API process reads the same database, so the largest is the one that looked last.
        .record("onceward:relay_lag_seconds:max", format!("max({CONSUMER_LAG_SECONDS}{{queue=\"{OUTBOX}\"}})"))
        .alert(Alert {
            alert: "OncewardRelayLag",
            expr: "onceward:relay_lag_seconds:max > 60".into(),
            for_s: 60,
            severity: Severity::Page,
            summary: "Committed messages have waited for the bus for more than a minute.",
            runbook: "Requests go on and nothing is lost. `onceward outbox status` says whether the bus, the relay or a refused \
                      message holds them up; start a process with `--role relay` if there is none.",
        })
}

fn publish_success() -> Slo {
    let rate = |figure: &str| format!("sum(rate({figure}[5m]))");
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
                      what is declared. After the cause is gone, `onceward outbox retry` offers them again at once.",
        })
        .alert(Alert {
            alert: "OncewardBusUnreachable",
            // One relay that reaches it is enough.
            expr: format!("max by (bus) ({BUS_UP}) == 0"),
            for_s: 120,
            severity: Severity::Page,
            summary: "No relay reaches the bus.",
            runbook: "Messages wait in the outbox and requests go on. Check the broker, then `BROKER_URL` and its password; \
                      everything drains in order once it is back.",
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
            expr: "onceward:consumer_lag_seconds:max > 300".into(),
            for_s: 300,
            severity: Severity::Page,
            summary: "The oldest message of a queue has waited for more than five minutes.",
            runbook: "`onceward queues` shows how many wait, `onceward doctor` what holds them up. Start more processes with \
                      `--role worker`; one key's messages are handled one after the other, however many there are.",
        })
}

fn dead_letter_rate() -> Slo {
    let dead = format!("sum by (queue) (rate({DEAD_LETTERS}[5m]))");
    let settled = format!("sum by (queue) (rate({MESSAGES_PROCESSED}{{result=~\"ok|dead\"}}[5m]))");
    Slo::new("dead-letters", "At most 0.1 % of a queue's messages become dead letters, and none is forgotten")
        .record("onceward:dead_letters:ratio5m", format!("{dead} / {settled}"))
        .alert(Alert {
            alert: "OncewardDeadLetterRate",
            expr: "onceward:dead_letters:ratio5m > 0.001".into(),
            for_s: 0,
            severity: Severity::Page,
            summary: "More than one message in a thousand of a queue became a dead letter within five minutes.",
            runbook: "`onceward dlq list --newer-than 1h` gives reasons and errors, `onceward dlq show ID` a whole message. Put \
                      right what is wrong, then `onceward dlq requeue --all` with the same filters.",
        })
        .alert(Alert {
            alert: "OncewardDeadLettersWait",
            // The rate does not see the first one of a process; this does.
            expr: format!("max by (queue) ({DEAD_LETTERS_OPEN}) > 0"),
            for_s: 900,
            severity: Severity::Ticket,
            summary: "Dead letters wait for somebody to deal with them.",
            runbook: "`onceward dlq list --queue QUEUE`, then `onceward dlq requeue` or `onceward dlq quarantine` with the reason.",
        })
}
