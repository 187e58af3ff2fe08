//! The alert rules: promtool accepts them, each one fires, and they read metrics that exist.

use crate::support::{Process, SECRET, Scratch, get, http, json_lines_of, migrated_database, services, stdout_of};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use onceward::Platform;
use onceward_testkit::{HttpResponse, free_port, wait_until_ready};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

/// Twice as long as the longest `for` of a rule.
const MINUTES: u32 = 40;

/// An alert, the series that raise it, and the labels it has.
struct AlertCase {
    alert: &'static str,
    series: &'static [(&'static str, &'static str)],
    labels: &'static [(&'static str, &'static str)],
}

const CASES: &[AlertCase] = &[
    AlertCase {
        alert: "OncewardRelayLag",
        series: &[(r#"loanserve_consumer_lag_seconds{queue="@outbox",instance="a"}"#, "61x40")],
        labels: &[],
    },
    AlertCase {
        alert: "OncewardPublishFailures",
        series: &[
            ("outbox_relay_published_total", "0+9980x40"),
            ("outbox_relay_retried_total", "0+15x40"),
            ("outbox_relay_dead_total", "0+5x40"),
        ],
        labels: &[],
    },
    AlertCase {
        alert: "OncewardBusUnreachable",
        series: &[
            (r#"onceward_bus_up{bus="kafka",instance="a"}"#, "0x40"),
            (r#"onceward_bus_up{bus="kafka",instance="b"}"#, "0x40"),
        ],
        labels: &[("bus", "kafka")],
    },
    AlertCase {
        alert: "OncewardConsumerLag",
        series: &[
            (r#"loanserve_consumer_lag_seconds{queue="q",instance="a"}"#, "301x40"),
            (r#"loanserve_queue_depth{queue="q",instance="a"}"#, "1x40"),
        ],
        labels: &[("queue", "q")],
    },
    AlertCase {
        alert: "OncewardBusBacklogUnknown",
        series: &[
            (r#"onceward_bus_backlog_known{bus="rabbitmq",instance="a"}"#, "1x30 0x10"),
            (r#"onceward_bus_backlog_known{bus="rabbitmq",instance="b"}"#, "0x40"),
        ],
        labels: &[("bus", "rabbitmq")],
    },
    AlertCase {
        alert: "OncewardBreakerOpen",
        series: &[
            (r#"onceward_breaker_state{destination="sms",state="open",instance="a"}"#, "1x40"),
            (r#"onceward_breaker_state{destination="sms",state="closed",instance="a"}"#, "0x40"),
            (r#"onceward_breaker_state{destination="hooks",state="open",instance="a"}"#, "1x40"),
            (r#"onceward_breaker_state{destination="hooks",state="closed",instance="b"}"#, "1x40"),
        ],
        labels: &[("destination", "sms")],
    },
    AlertCase {
        alert: "OncewardConsumerHeartbeatMissed",
        series: &[
            (r#"loanserve_consumer_lag_seconds{queue="q",instance="a"}"#, "121x40"),
            (r#"loanserve_queue_depth{queue="q",instance="a"}"#, "1x40"),
            (r#"loanserve_messages_processed_total{queue="q",result="ok"}"#, "0+100x35 3500x5"),
            (r#"loanserve_messages_processed_total{queue="other",result="ok"}"#, "0+100x40"),
        ],
        labels: &[("queue", "q")],
    },
    AlertCase {
        alert: "OncewardConsumersOffline",
        series: &[(r#"onceward_consumers_online{queue="q",instance="a"}"#, "1x10 0x30")],
        labels: &[("queue", "q")],
    },
    AlertCase {
        alert: "OncewardConsumerSlow",
        series: &[
            (r#"loanserve_consumer_runtime_ms_bucket{queue="q",le="2500"}"#, "0+90x40"),
            (r#"loanserve_consumer_runtime_ms_bucket{queue="q",le="3000"}"#, "0+94x40"),
            (r#"loanserve_consumer_runtime_ms_bucket{queue="q",le="5000"}"#, "0+100x40"),
            (r#"loanserve_consumer_runtime_ms_bucket{queue="q",le="+Inf"}"#, "0+100x40"),
        ],
        labels: &[("queue", "q")],
    },
    AlertCase {
        alert: "OncewardDeadLetterRateHourly",
        series: &[
            (r#"onceward_dead_letters_total{queue="q",reason="rejected"}"#, "0+5x40"),
            (r#"loanserve_messages_processed_total{queue="q",result="dead"}"#, "0+5x40"),
            (r#"loanserve_messages_processed_total{queue="q",result="ok"}"#, "0+990x40"),
        ],
        labels: &[("queue", "q")],
    },
    AlertCase {
        alert: "OncewardDeadLettersMany",
        series: &[(r#"onceward_dead_letters_open{queue="q"}"#, "11x40")],
        labels: &[("queue", "q")],
    },
    AlertCase {
        alert: "OncewardDeadLetterRate",
        series: &[
            (r#"onceward_dead_letters_total{queue="q",reason="rejected"}"#, "0+2x40"),
            (r#"loanserve_messages_processed_total{queue="q",result="dead"}"#, "0+2x40"),
            (r#"loanserve_messages_processed_total{queue="q",result="ok"}"#, "0+998x40"),
        ],
        labels: &[("queue", "q")],
    },
    AlertCase {
        alert: "OncewardDeadLettersWait",
        series: &[(r#"onceward_dead_letters_open{queue="q"}"#, "1x40")],
        labels: &[("queue", "q")],
    },
    AlertCase {
        alert: "LendingPaymentsSlow",
        series: &[
            (r#"payments_e2e_latency_ms_bucket{le="300000"}"#, "0+94x40"),
            (r#"payments_e2e_latency_ms_bucket{le="+Inf"}"#, "0+100x40"),
            ("payments_e2e_latency_ms_count", "0+100x40"),
        ],
        labels: &[],
    },
    AlertCase {
        alert: "LendingLoansSlow",
        series: &[
            (r#"lending_loan_create_latency_ms_bucket{le="3000"}"#, "0+94x40"),
            (r#"lending_loan_create_latency_ms_bucket{le="+Inf"}"#, "0+100x40"),
            ("lending_loan_create_latency_ms_count", "0+100x40"),
        ],
        labels: &[],
    },
    AlertCase {
        alert: "LendingReportingLate",
        series: &[
            (r#"etl_window_seconds_bucket{le="300"}"#, "0+98x40"),
            (r#"etl_window_seconds_bucket{le="+Inf"}"#, "0+100x40"),
            ("etl_window_seconds_count", "0+100x40"),
        ],
        labels: &[],
    },
    AlertCase {
        alert: "CrmEmailLate",
        series: &[
            (r#"crm_email_objective_total{met="true"}"#, "0+50x40"),
            (r#"crm_email_objective_total{met="false"}"#, "0+50x40"),
        ],
        labels: &[],
    },
    AlertCase {
        alert: "CrmEmailBudgetBurn",
        series: &[
            (r#"crm_email_objective_total{met="true"}"#, "0+90x40"),
            (r#"crm_email_objective_total{met="false"}"#, "0+10x40"),
        ],
        labels: &[],
    },
    AlertCase {
        alert: "CrmEmailFailures",
        series: &[
            (r#"crm_email_failed_total{error_code="refused"}"#, "0+10x40"),
            (r#"crm_email_requests_total{class="transactional"}"#, "0+100x40"),
        ],
        labels: &[],
    },
    AlertCase { alert: "CrmEmailUnknown", series: &[("crm_email_unknown_total", "0x30 1x10")], labels: &[] },
    AlertCase { alert: "CrmEmailQueueLag", series: &[("crm_email_queue_lag_seconds", "1000x40")], labels: &[] },
    AlertCase {
        alert: "SurveysQuotaOverfill",
        series: &[(r#"surveys_quota_overfill{instance="a"}"#, "1x40")],
        labels: &[],
    },
];

/// The series of a healthy system, with traffic.
const HEALTHY: &[(&str, &str)] = &[
    (r#"loanserve_consumer_lag_seconds{queue="@outbox"}"#, "59x40"),
    (r#"loanserve_consumer_lag_seconds{queue="q"}"#, "299x40"),
    (r#"loanserve_queue_depth{queue="q"}"#, "100x40"),
    // One message that is to be retried in an hour, in an idle queue.
    (r#"loanserve_consumer_lag_seconds{queue="idle"}"#, "3600x40"),
    (r#"loanserve_queue_depth{queue="idle"}"#, "0x40"),
    // The same, with a new message at the moment of the last sample, which its consumer had no time for yet.
    (r#"loanserve_consumer_lag_seconds{queue="awake"}"#, "3600x40"),
    (r#"loanserve_queue_depth{queue="awake"}"#, "0x39 1"),
    (r#"onceward_bus_backlog_known{bus="kafka",instance="a"}"#, "0x40"),
    (r#"onceward_bus_backlog_known{bus="kafka",instance="b"}"#, "1x40"),
    ("outbox_relay_published_total", "0+9995x40"),
    ("outbox_relay_retried_total", "0+5x40"),
    ("outbox_relay_dead_total", "0x40"),
    (r#"onceward_bus_up{bus="kafka",instance="a"}"#, "0x40"),
    (r#"onceward_bus_up{bus="kafka",instance="b"}"#, "1x40"),
    (r#"onceward_dead_letters_total{queue="q",reason="rejected"}"#, "0+1x40"),
    (r#"loanserve_messages_processed_total{queue="q",result="ok"}"#, "0+1999x40"),
    (r#"onceward_dead_letters_open{queue="q"}"#, "0x40"),
    (r#"onceward_consumers_online{queue="q",instance="a"}"#, "0x40"),
    (r#"onceward_consumers_online{queue="q",instance="b"}"#, "1x40"),
    (r#"loanserve_consumer_runtime_ms_bucket{queue="q",le="3000"}"#, "0+96x40"),
    (r#"loanserve_consumer_runtime_ms_bucket{queue="q",le="+Inf"}"#, "0+100x40"),
    (r#"lending_loan_create_latency_ms_bucket{le="3000"}"#, "0+96x40"),
    ("lending_loan_create_latency_ms_count", "0+100x40"),
    (r#"etl_window_seconds_bucket{le="300"}"#, "0+995x40"),
    ("etl_window_seconds_count", "0+1000x40"),
    (r#"payments_e2e_latency_ms_bucket{le="300000"}"#, "0+96x40"),
    ("payments_e2e_latency_ms_count", "0+100x40"),
    (r#"surveys_quota_overfill{instance="a"}"#, "0x40"),
    // A quiet night: two late mails of fifteen must wake nobody.
    (r#"crm_email_objective_total{met="true"}"#, "0x20 13x20"),
    (r#"crm_email_objective_total{met="false"}"#, "0x20 2x20"),
    (r#"crm_email_failed_total{error_code="refused"}"#, "0+4x40"),
    (r#"crm_email_requests_total{class="transactional"}"#, "0+100x40"),
    ("crm_email_unknown_total", "0x40"),
    ("crm_email_queue_lag_seconds", "899x40"),
];

#[tokio::test]
async fn every_alert_fires_when_its_objective_is_missed_and_none_in_a_healthy_system() {
    let listed = json_lines_of(&["slo", "list", "--json"], &[]).await;
    let alerts: Vec<(&Value, &Value, &Value)> = listed
        .iter()
        .flat_map(|listed| {
            let alerts = listed["slo"]["alerts"].as_array().expect("a list");
            alerts.iter().map(move |alert| (&listed["service"], &listed["slo"]["name"], alert))
        })
        .collect();
    let mut tests = Vec::new();
    for (service, slo, alert) in &alerts {
        let name = alert["alert"].as_str().expect("a name");
        let case = CASES.iter().find(|case| case.alert == name);
        let case = case.unwrap_or_else(|| panic!("no case raises {name}; add one"));
        let mut labels = json!({"severity": alert["severity"], "service": service, "slo": slo});
        for (label, value) in case.labels {
            labels[*label] = (*value).into();
        }
        let annotations = json!({"summary": alert["summary"], "runbook": alert["runbook"]});
        let raised = json!([{ "exp_labels": labels, "exp_annotations": annotations }]);
        tests.push(rule_test(case.series, vec![(name, raised)]));
    }
    assert_eq!(CASES.len(), alerts.len(), "a case names an alert that does not exist");
    tests.push(rule_test(
        HEALTHY,
        alerts.iter().map(|(_, _, alert)| (alert["alert"].as_str().unwrap(), json!([]))).collect(),
    ));

    let scratch = Scratch::new();
    fs::write(scratch.join("rules.yml"), stdout_of(&["slo", "rules"], &[]).await).expect("the folder is writable");
    let suite = json!({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests});
    fs::write(scratch.join("tests.yml"), suite.to_string()).expect("the folder is writable");
    promtool(&["check", "rules", "--lint-fatal", "rules.yml"], scratch.path());
    promtool(&["test", "rules", "tests.yml"], scratch.path());
}

fn rule_test(series: &[(&str, &str)], raised: Vec<(&str, Value)>) -> Value {
    let series: Vec<Value> =
        series.iter().map(|(series, values)| json!({"series": series, "values": values})).collect();
    let at = format!("{MINUTES}m");
    let expected: Vec<Value> = raised
        .into_iter()
        .map(|(alert, raised)| json!({"eval_time": at, "alertname": alert, "exp_alerts": raised}))
        .collect();
    json!({"interval": "1m", "input_series": series, "alert_rule_test": expected})
}

fn promtool(args: &[&str], folder: &Path) {
    let output = Command::new("promtool").args(args).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.expect("promtool is installed; `cargo xtask install` installs it");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {args:?}\n{out}\n{err}");
}

#[tokio::test]
async fn every_metric_that_a_rule_reads_is_described_by_the_platform() {
    let platform = Platform::assemble(services()).expect("the services are valid");
    let described = DescribedMetrics::default();
    metrics::with_local_recorder(&described, || platform.describe_metrics());
    let described = described.0.lock().clone();
    let read: BTreeSet<String> =
        onceward::slo::all(&platform).iter().flat_map(|(_, slo)| onceward_cli::slo::metrics_of(slo)).collect();
    assert!(read.len() >= 9, "rules read few metrics: {read:?}");
    let unknown: Vec<&String> = read.difference(&described).collect();
    assert!(unknown.is_empty(), "rules read metrics that are not described: {unknown:?}");
}

/// Records which metrics are described.
#[derive(Clone, Default)]
struct DescribedMetrics(Arc<Mutex<BTreeSet<String>>>);

impl DescribedMetrics {
    fn record(&self, name: &KeyName) {
        self.0.lock().insert(name.as_str().to_owned());
    }
}

impl Recorder for DescribedMetrics {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.record(&name);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.record(&name);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.record(&name);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
async fn a_process_without_the_api_serves_its_metrics_at_the_configured_address() {
    let (scratch, database) = (Scratch::new(), migrated_database().await);
    let listen = format!("127.0.0.1:{}", free_port());
    let variables = [
        ("DATABASE_URL", database.url()),
        ("ONCEWARD_AUTH_SECRET", SECRET.into()),
        ("ONCEWARD_HTTP_METRICS_LISTEN", listen.clone()),
    ];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut process = Process::start(&["serve", "--role", "worker"], &variables, &scratch.join("worker.log"));
    let url = format!("http://{listen}");
    wait_until_ready(&url).await;
    let metrics = HttpResponse::to(http().get(format!("{url}/metrics"))).await.text;
    assert!(metrics.contains("\nloanserve_queue_depth{"), "{metrics}");
    assert_eq!(get(&format!("{url}/api/orders/1"), None).await.0, 404, "it serves no API");
    assert!(process.stop_with("TERM").await.success());
}
