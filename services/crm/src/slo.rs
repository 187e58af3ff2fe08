//! The objectives for mails, with their alerts.

use crate::measure::{FAILED, OBJECTIVE, QUEUE_LAG_SECONDS, REQUESTS, UNKNOWN};
use onceward::slo::{Alert, Severity, Slo};

/// A mail must be sent within this time.
pub(crate) const OBJECTIVE_MS: u64 = 300_000;

pub(crate) fn slos() -> Vec<Slo> {
    vec![sent_in_time(), failures(), queue_lag()]
}

/// The budget is one mail in a hundred. A fast burn pages, a slow one opens a ticket; both need a few mails, so that one late
/// mail at night wakes nobody.
fn sent_in_time() -> Slo {
    let late = |window: &str| {
        let all = format!("sum(increase({OBJECTIVE}[{window}]))");
        format!("(sum(increase({OBJECTIVE}{{met=\"false\"}}[{window}])) or vector(0)) / ({all} > 0)")
    };
    let enough = |window: &str, count: u32| format!("sum(increase({OBJECTIVE}[{window}])) > {count}");
    Slo::new("email-sent-in-time", "Of the mails, 99 % are handed over to a provider within five minutes of their request")
        .record("crm:email_late:ratio5m", late("5m"))
        .record("crm:email_late:ratio1h", late("1h"))
        .record("crm:email_late:ratio6h", late("6h"))
        .record("crm:email_error_budget_left:ratio30d", format!("1 - ({}) / 0.01", late("30d")))
        .alert(Alert {
            alert: "CrmEmailLate",
            expr: format!("crm:email_late:ratio1h > 0.144 and crm:email_late:ratio5m > 0.144 and {}", enough("1h", 20)),
            for_s: 120,
            severity: Severity::Page,
            summary: "Mails are sent late: at this rate the error budget of a month is used up in two days.",
            runbook: "`onceward queues` shows the backlog of q.crm.email.v1, `onceward breaker list` whether a provider is down, \
                      `onceward pools` whether workers are missing.",
        })
        .alert(Alert {
            alert: "CrmEmailBudgetBurn",
            expr: format!("crm:email_late:ratio6h > 0.06 and {}", enough("6h", 100)),
            for_s: 900,
            severity: Severity::Ticket,
            summary: "Mails have been sent late for hours: the error budget will not last the month.",
            runbook: "Compare the arrival rate with the rate of the providers (`crm.rate_per_provider`, `crm.smtp_connections`).",
        })
}

fn failures() -> Slo {
    Slo::new("email-failures", "Providers take at least 95 % of the mails that are requested")
        .alert(Alert {
            alert: "CrmEmailFailures",
            expr: format!(
                "sum(rate({FAILED}[15m])) > 0.05 * sum(rate({REQUESTS}[15m])) and sum(increase({FAILED}[15m])) > 10"
            ),
            for_s: 300,
            severity: Severity::Page,
            summary: "More than one mail in twenty fails.",
            runbook: "`onceward crm explain <email>` shows the provider's answers. `onceward dlq list` shows mails that were \
                      given up; requeue them after the cause is removed.",
        })
        .alert(Alert {
            alert: "CrmEmailUnknown",
            expr: format!("sum(increase({UNKNOWN}[1h])) > 0"),
            for_s: 0,
            severity: Severity::Ticket,
            summary: "It is unknown whether a provider has some mails.",
            runbook: "They are not sent again by themselves. `onceward crm explain <email>` shows what is known; ask the provider, \
                      then settle them with POST /api/crm/emails/ID/recipients/POSITION/resolve.",
        })
}

fn queue_lag() -> Slo {
    Slo::new("email-queue-lag", "No mail waits for longer than fifteen minutes").alert(Alert {
        alert: "CrmEmailQueueLag",
        expr: format!("max({QUEUE_LAG_SECONDS}) > 900"),
        for_s: 300,
        severity: Severity::Page,
        summary: "A mail has waited for more than fifteen minutes.",
        runbook: "`onceward breaker list` shows whether a provider is down and `onceward queues controls` whether the queue is \
                  paused. Mails wait without losing attempts until the provider returns.",
    })
}
