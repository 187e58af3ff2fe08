//! The alert rules: read by Prometheus' own program, fired one by one, and built on figures that are really there.

use crate::support::{Process, SECRET, Scratch, get, http, migrated_database, print, print_json, services};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use onceward::Platform;
use onceward_testkit::{free_port, wait_until_ready};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

/// Twice as long as the slowest rule waits.
const MINUTES: u32 = 40;

/// An alert, the series that raise it, and the labels by which it comes.
struct Case {
    alert: &'static str,
    series: &'static [(&'static str, &'static str)],
    labels: &'static [(&'static str, &'static str)],
}

const CASES: &[Case] = &[
    Case {
        alert: "OncewardRelayLag",
        series: &[(r#"loanserve_consumer_lag_seconds{queue="@outbox",instance="a"}"#, "61x40")],
        labels: &[],
    },
    Case {
        alert: "OncewardPublishFailures",
        series: &[
            ("outbox_relay_published_total", "0+9980x40"),
            ("outbox_relay_retried_total", "0+15x40"),
            ("outbox_relay_dead_total", "0+5x40"),
        ],
        labels: &[],
    },
    Case {
        alert: "OncewardBusUnreachable",
        series: &[
            (r#"onceward_bus_up{bus="kafka",instance="a"}"#, "0x40"),
            (r#"onceward_bus_up{bus="kafka",instance="b"}"#, "0x40"),
        ],
        labels: &[("bus", "kafka")],
    },
    Case {
        alert: "OncewardConsumerLag",
        series: &[(r#"loanserve_consumer_lag_seconds{queue="q",instance="a"}"#, "301x40")],
        labels: &[("queue", "q")],
    },
    Case {
        alert: "OncewardDeadLetterRate",
        series: &[
            (r#"onceward_dead_letters_total{queue="q",reason="rejected"}"#, "0+2x40"),
            (r#"loanserve_messages_processed_total{queue="q",result="dead"}"#, "0+2x40"),
            (r#"loanserve_messages_processed_total{queue="q",result="ok"}"#, "0+998x40"),
        ],
        labels: &[("queue", "q")],
    },
    Case {
        alert: "OncewardDeadLettersWait",
        series: &[(r#"onceward_dead_letters_open{queue="q"}"#, "1x40")],
        labels: &[("queue", "q")],
    },
    Case {
        alert: "LendingPaymentsSlow",
        series: &[
            (r#"payments_e2e_latency_ms_bucket{le="300000"}"#, "0+94x40"),
            (r#"payments_e2e_latency_ms_bucket{le="+Inf"}"#, "0+100x40"),
            ("payments_e2e_latency_ms_count", "0+100x40"),
        ],
        labels: &[],
    },
    Case { alert: "SurveysQuotaOverfill", series: &[(r#"surveys_quota_overfill{instance="a"}"#, "1x40")], labels: &[] },
];

/// Everything as it should be, with traffic.
const WELL: &[(&str, &str)] = &[
    (r#"loanserve_consumer_lag_seconds{queue="@outbox"}"#, "59x40"),
    (r#"loanserve_consumer_lag_seconds{queue="q"}"#, "299x40"),
    ("outbox_relay_published_total", "0+9995x40"),
    ("outbox_relay_retried_total", "0+5x40"),
    ("outbox_relay_dead_total", "0x40"),
    (r#"onceward_bus_up{bus="kafka",instance="a"}"#, "0x40"),
    (r#"onceward_bus_up{bus="kafka",instance="b"}"#, "1x40"),
    (r#"onceward_dead_letters_total{queue="q",reason="rejected"}"#, "0+1x40"),
    (r#"loanserve_messages_processed_total{queue="q",result="ok"}"#, "0+1999x40"),
    (r#"onceward_dead_letters_open{queue="q"}"#, "0x40"),
    (r#"payments_e2e_latency_ms_bucket{le="300000"}"#, "0+96x40"),
    ("payments_e2e_latency_ms_count", "0+100x40"),
    (r#"surveys_quota_overfill{instance="a"}"#, "0x40"),
];

#[tokio::test]
async fn every_alert_fires_when_its_objective_does_not_hold_and_none_when_all_is_well() {
    let listed = print_json(&["slo", "list", "--json"], &[]).await;
    let alerts: Vec<(&Value, &Value, &Value)> = listed
        .iter()
        .flat_map(|one| {
            let alerts = one["slo"]["alerts"].as_array().expect("a list");
            alerts.iter().map(move |alert| (&one["service"], &one["slo"]["name"], alert))
        })
        .collect();
    let mut tests = Vec::new();
    for (service, slo, alert) in &alerts {
        let name = alert["alert"].as_str().expect("a name");
        let case = CASES.iter().find(|case| case.alert == name);
        let case = case.unwrap_or_else(|| panic!("nothing here raises {name}: give it a case"));
        let mut labels = json!({"severity": alert["severity"], "service": service, "slo": slo});
        for (label, value) in case.labels {
            labels[*label] = (*value).into();
        }
        let annotations = json!({"summary": alert["summary"], "runbook": alert["runbook"]});
        let raised = json!([{ "exp_labels": labels, "exp_annotations": annotations }]);
        tests.push(test(case.series, vec![(name, raised)]));
    }
    assert_eq!(CASES.len(), alerts.len(), "a case speaks of an alert that is gone");
    tests.push(test(WELL, alerts.iter().map(|(_, _, alert)| (alert["alert"].as_str().unwrap(), json!([]))).collect()));

    let scratch = Scratch::new();
    fs::write(scratch.join("rules.yml"), print(&["slo", "rules"], &[]).await).expect("the folder is writable");
    let suite = json!({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests});
    fs::write(scratch.join("tests.yml"), suite.to_string()).expect("the folder is writable");
    promtool(&["check", "rules", "--lint-fatal", "rules.yml"], scratch.path());
    promtool(&["test", "rules", "tests.yml"], scratch.path());
}

fn test(series: &[(&str, &str)], raised: Vec<(&str, Value)>) -> Value {
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
    let ran = Command::new("promtool").args(args).current_dir(folder).stdin(Stdio::null()).output();
    let output = ran.expect("promtool is there: `cargo xtask install` installs it");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {args:?}\n{out}\n{err}");
}

#[tokio::test]
async fn every_figure_that_a_rule_reads_is_one_that_the_platform_describes() {
    let platform = Platform::assemble(services()).expect("the services fit together");
    let described = Described::default();
    metrics::with_local_recorder(&described, || platform.describe_figures());
    let described = described.0.lock().expect("nobody panicked").clone();
    let read: BTreeSet<String> = onceward::slo::all(&platform).iter().flat_map(|(_, slo)| slo.figures()).collect();
    assert!(read.len() >= 9, "rules read few figures: {read:?}");
    let unknown: Vec<&String> = read.difference(&described).collect();
    assert!(unknown.is_empty(), "rules read figures that nobody describes: {unknown:?}");
}

/// Hears which figures are described.
#[derive(Clone, Default)]
struct Described(Arc<Mutex<BTreeSet<String>>>);

impl Described {
    fn note(&self, name: &KeyName) {
        self.0.lock().expect("nobody panicked").insert(name.as_str().to_owned());
    }
}

impl Recorder for Described {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.note(&name);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.note(&name);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.note(&name);
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
async fn a_process_without_the_api_tells_its_figures_where_it_is_asked_to() {
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
    let metrics = http().get(format!("{url}/metrics")).send().await.expect("an answer").text().await.expect("text");
    assert!(metrics.contains("\nloanserve_queue_depth{"), "{metrics}");
    assert_eq!(get(&format!("{url}/api/orders/1"), None).await.0, 404, "it serves no API");
    assert!(process.end_by("TERM").await.success());
}
