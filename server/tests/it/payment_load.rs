//! The load test of lending on its own bus: 100 payments per second on RabbitMQ, with a prefetch of 10 and as many
//! posters as cores. The bench measures the duration; here nothing may be lost and the process must stay ready.

use crate::{
    lending_process::{ACME, LendingProcesses, read_metrics, today},
    payment_kills::{lending_client::LendingClient, loans::create_loans},
    support::http,
};
use onceward_testkit::{HttpResponse, eventually, left_out, managed_rabbitmq};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const PAYMENTS: usize = 300;
const PAYMENTS_PER_SECOND: u32 = 100;
const LOANS: usize = 8;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_on_rabbitmq_with_a_prefetch_of_ten_meet_the_objective_and_the_process_stays_ready() {
    if left_out("rabbitmq") {
        return;
    }
    let broker = tokio::task::spawn_blocking(managed_rabbitmq).await.expect("a broker");
    let (url, management) = (broker.url(), broker.management_url().expect("the broker has a management API"));
    let namespace = format!("load-{}.", Uuid::now_v7().simple());
    let variables = [
        ("BROKER_URL", url.as_str()),
        ("ONCEWARD_BUS_NAMESPACE", namespace.as_str()),
        ("RABBIT_PREFETCH", "10"),
        ("ONCEWARD_LENDING_POSTER_CONCURRENCY", "0"),
        ("ONCEWARD_LENDING_POSTER_BATCH", "10"),
    ];
    let mut processes = LendingProcesses::new(&variables).await;
    let api = processes.start(&["all"]).await;
    let lending = LendingClient::new(api.clone());
    let loans = create_loans(&lending, today(), LOANS).await;
    eventually("every consumer has its prefetch", || async {
        let found = prefetches(&management, &namespace).await;
        (!found.is_empty() && found.iter().all(|prefetch| *prefetch == 10)).then_some(())
    })
    .await;

    let (done, polled) = (CancellationToken::new(), api.clone());
    let readiness = tokio::spawn(poll_readiness(polled, done.clone()));
    let mut pace = interval(Duration::from_secs(1) / PAYMENTS_PER_SECOND);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut sent = JoinSet::new();
    for number in 0..PAYMENTS {
        pace.tick().await;
        let (lending, loan_id) = (lending.clone(), loans[number % LOANS]);
        sent.spawn(async move {
            let txn = format!("t-{number}");
            let body = json!({"txn_id": txn, "loan_id": loan_id, "amount_minor": "100", "method": "ach"});
            lending.send(Method::POST, ACME, "/payments/intake/mock", &txn, &body).await.status
        });
    }
    assert!(sent.join_all().await.iter().all(|status| *status == 201), "every payment is accepted");
    let all = i64::try_from(PAYMENTS).expect("a small number");
    eventually("every payment is posted", || async {
        (processes.count("SELECT count(*) FROM lending.payment_posting").await == all).then_some(())
    })
    .await;
    processes.wait_until_handled().await;
    done.cancel();
    let (times, not_ready) = readiness.await.expect("the poller does not panic");
    assert!(times > 10, "readiness was polled only {times} times");
    // On a busy machine, checks may time out; any other failure means that the process is not ready.
    let others: Vec<&Value> = not_ready.iter().filter(|report| !has_only_timeouts(report)).collect();
    assert!(others.is_empty(), "of {times} times: {others:#?}");

    // Metrics change after the commit that they count, which others can see a moment earlier.
    let all = PAYMENTS as f64;
    let found = eventually("every posting is counted", || async {
        let found = read_metrics(&api).await;
        let of = |name: &str| found.get(name).copied().unwrap_or_default();
        (of("payments_e2e_latency_ms_count") >= all && of("payments_outbox_published_total") >= all).then_some(found)
    })
    .await;
    let of = |name: &str| found.get(name).copied().unwrap_or_default();
    assert_eq!((of("payments_e2e_latency_ms_count"), of("payments_outbox_published_total")), (all, all), "each once");
    // The objective is five minutes, and ten seconds are usual. A machine that builds something else at the same time
    // needs longer, so only the one-minute bucket decides.
    println!("{} of {all} were posted within ten seconds", of(r#"payments_e2e_latency_ms_bucket{le="10000"}"#));
    let within_a_minute = of(r#"payments_e2e_latency_ms_bucket{le="60000"}"#);
    assert!(within_a_minute >= 0.95 * all, "{within_a_minute} of {all} were posted within a minute");
    processes.stop().await;
}

/// Returns whether at least one check failed, and every failed one timed out.
fn has_only_timeouts(report: &Value) -> bool {
    let checks = report["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut failed = checks.iter().filter(|check| check["ok"] == false).peekable();
    let is_late = |check: &Value| check["detail"].as_str().is_some_and(|text| text.starts_with("no answer within"));
    failed.peek().is_some() && failed.all(is_late)
}

/// Returns the prefetch of every consumer, as the broker reports it.
async fn prefetches(management: &str, namespace: &str) -> Vec<u64> {
    let response = HttpResponse::to(http().get(format!("{management}/api/consumers"))).await;
    let consumers = response.body.as_array().expect("a list").clone();
    let ours = |consumer: &&Value| {
        consumer["queue"]["name"].as_str().is_some_and(|name| name.starts_with(namespace))
            && consumer["ack_required"] == true
    };
    consumers.iter().filter(ours).filter_map(|consumer| consumer["prefetch_count"].as_u64()).collect()
}

#[test]
fn a_report_without_failed_checks_has_no_timeouts() {
    for (report, expected) in [
        (json!({"checks": [{"ok": true}, {"ok": false, "detail": "no answer within 2 s"}]}), true),
        (json!({"checks": [{"ok": false, "detail": "no answer within 2 s"}, {"ok": false, "detail": "down"}]}), false),
        (json!({"checks": [{"ok": true}]}), false),
        (json!({}), false),
        (Value::Null, false),
    ] {
        assert_eq!(has_only_timeouts(&report), expected, "{report}");
    }
}

/// Polls readiness until asked to stop; returns the number of requests and the reports that were not ready.
async fn poll_readiness(url: String, done: CancellationToken) -> (usize, Vec<Value>) {
    let (client, mut times, mut not_ready) = (http(), 0, Vec::new());
    let mut pace = interval(POLL_INTERVAL);
    while !done.is_cancelled() {
        pace.tick().await;
        let response = HttpResponse::to(client.get(format!("{url}/health/ready"))).await;
        times += 1;
        if response.status != 200 {
            not_ready.push(response.body);
        }
    }
    (times, not_ready)
}
