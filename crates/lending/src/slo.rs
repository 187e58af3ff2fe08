//! What lending promises about payments.

use metrics::describe_histogram;
use onceward::slo::{Alert, Severity, Slo};

/// From when a payment was received to when it was posted.
const E2E_LATENCY_MS: &str = "payments_e2e_latency_ms";

/// Gives the figures behind the objectives their help texts.
pub(crate) fn describe() {
    describe_histogram!(E2E_LATENCY_MS, "Milliseconds from the receipt of a payment to its posting");
}

/// Payments are posted in time.
pub(crate) fn payment_latency() -> Slo {
    let in_time = format!("sum(rate({E2E_LATENCY_MS}_bucket{{le=\"300000\"}}[10m]))");
    let all = format!("sum(rate({E2E_LATENCY_MS}_count[10m]))");
    Slo::new("payment-latency", "95 % of payments are posted within five minutes of their receipt")
        // The share, and not the quantile: that one never passes the last bucket, which ends at five minutes.
        .record("lending:payments_in_time:ratio10m", format!("{in_time} / {all}"))
        .record(
            "lending:payments_e2e_latency_ms:p95",
            format!("histogram_quantile(0.95, sum by (le) (rate({E2E_LATENCY_MS}_bucket[10m])))"),
        )
        .alert(Alert {
            alert: "LendingPaymentsSlow",
            expr: "lending:payments_in_time:ratio10m < 0.95".into(),
            for_s: 300,
            severity: Severity::Page,
            summary: "More than one payment in twenty takes longer than five minutes to be posted.",
            runbook: "`onceward queues` shows which step of the pipeline is behind; `onceward trace CORRELATION_ID` follows one \
                      payment. Start more processes with `--role worker`, or look for what `onceward doctor` finds.",
        })
}
