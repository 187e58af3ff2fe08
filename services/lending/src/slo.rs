//! The service level objectives of lending: loans created, payments posted and reporting windows completed in time.

use crate::{etl::metrics::WINDOW_SECONDS, loans::metrics::CREATE_LATENCY_MS, payments::metrics::E2E_LATENCY_MS};
use onceward::slo::{Alert, Severity, Slo};

/// Returns all objectives.
pub(crate) fn slos() -> [Slo; 3] {
    [loan_creation(), payment_latency(), reporting_windows()]
}

fn loan_creation() -> Slo {
    let in_time = format!("sum(rate({CREATE_LATENCY_MS}_bucket{{le=\"3000\"}}[10m]))");
    let all = format!("sum(rate({CREATE_LATENCY_MS}_count[10m]))");
    Slo::new("loan-creation", "95 % of loans are created within three seconds of the accepted command")
        .record("lending:loans_in_time:ratio10m", format!("{in_time} / {all}"))
        .record(
            "lending:loan_create_latency_ms:p95",
            format!("histogram_quantile(0.95, sum by (le) (rate({CREATE_LATENCY_MS}_bucket[10m])))"),
        )
        .alert(Alert {
            alert: "LendingLoansSlow",
            expr: "lending:loans_in_time:ratio10m < 0.95".into(),
            for_s: 600,
            severity: Severity::Page,
            summary: "More than one loan in twenty is created later than three seconds after its command was accepted.",
            runbook: "`onceward queues` shows whether loan.create.v1 is behind, `onceward trace CORRELATION_ID` follows one \
                      command. Start more processes with `--role worker`, or look for what `onceward doctor` finds.",
        })
}

fn payment_latency() -> Slo {
    let in_time = format!("sum(rate({E2E_LATENCY_MS}_bucket{{le=\"300000\"}}[10m]))");
    let all = format!("sum(rate({E2E_LATENCY_MS}_count[10m]))");
    Slo::new("payment-latency", "95 % of payments are posted within five minutes of their receipt")
        // Uses the share and not the quantile, which never exceeds the last bucket, at five minutes.
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

fn reporting_windows() -> Slo {
    let in_time = format!("sum(rate({WINDOW_SECONDS}_bucket{{le=\"300\"}}[1h]))");
    let all = format!("sum(rate({WINDOW_SECONDS}_count[1h]))");
    Slo::new("reporting-windows", "99 % of reporting windows are completed within five minutes of their schedule tick")
        .record("lending:etl_windows_in_time:ratio1h", format!("{in_time} / {all}"))
        .alert(Alert {
            alert: "LendingReportingLate",
            expr: "lending:etl_windows_in_time:ratio1h < 0.99".into(),
            for_s: 300,
            severity: Severity::Ticket,
            summary: "More than one reporting window in a hundred is completed later than five minutes after its tick.",
            runbook: "`GET /api/etl/status` shows the shards of a window, `onceward queues` whether etl.schedule.v1 or \
                      etl.job.v1 is behind. Start more processes with `--role worker`.",
        })
}
