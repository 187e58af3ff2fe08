//! The values of the payment metrics, in separate processes, so that nothing else adds to them.

use crate::{
    lending_process::{LendingProcesses, create_loan, pay, read_metrics},
    payment_kills::lending_client::LendingClient,
};
use onceward_testkit::{eventually, left_out, rabbitmq_url};
use serde_json::{Value, json};
use std::collections::HashMap;
use uuid::Uuid;

/// Waits until the metrics at `url` have these values, and checks that none exceeded them. A metric changes after the
/// commit that it counts, which others can see a moment earlier.
async fn check_metrics(url: &str, expected: &[(&str, f64)]) {
    let is_reached = |metrics: &HashMap<String, f64>| {
        expected.iter().all(|(name, value)| metrics.get(*name).is_some_and(|metrics| metrics >= value))
    };
    let wanted: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    eventually(&format!("the metrics have these values: {wanted:?}"), || async {
        is_reached(&read_metrics(url).await).then_some(())
    })
    .await;
    let metrics = read_metrics(url).await;
    for (name, value) in expected {
        assert_eq!(metrics.get(*name), Some(value), "{name}");
    }
}

/// Publishes a message that makes its batch fail: its payment was never received.
async fn publish_failing_message(processes: &LendingProcesses, loan_id: Uuid, like: &Value) {
    let payload = json!({
        "payment_id": Uuid::now_v7(), "loan_id": loan_id, "method": "ach", "amount_minor": "1", "currency": "USD",
        "received_at": "2026-01-05T00:00:00Z", "gateway_txn_id": "none", "source": "mock",
        "idempotency_key": like["idempotency_key"], "effective_date": "2026-01-05",
    });
    let sql =
        "SELECT onceward.enqueue('acme', 'payments.validation:received.v1', 'payment.received.v1', $1::jsonb)::text";
    processes.owner.query_one(sql, &[&payload]).await.expect("the message is published");
}

#[tokio::test]
async fn metrics_change_with_the_commit_and_count_a_retried_batch_once() {
    let mut processes = LendingProcesses::new(&[]).await;
    let api = processes.start(&["api"]).await;
    let lending = LendingClient::new(api.clone());
    processes.start(&["worker"]).await;
    let loan_id = create_loan(&lending).await;
    processes.wait_until_handled().await;
    // New messages wait from now on, so that the next worker finds them in one batch.
    processes.stop_last().await;
    let mut last = Value::Null;
    for number in 0..5 {
        last = pay(&lending, loan_id, &format!("t-{number}"), "100", json!({})).await.with_status(201);
    }
    assert_eq!(pay(&lending, loan_id, "t-0", "100", json!({})).await.status, 200);
    assert_eq!(pay(&lending, loan_id, "t-0", "101", json!({})).await.status, 409);
    assert_eq!(pay(&lending, loan_id, "euro", "100", json!({"currency": "EUR"})).await.status, 201);
    assert_eq!(pay(&lending, loan_id, "large", "500000001", json!({})).await.status, 201);
    publish_failing_message(&processes, loan_id, &last).await;

    let worker = processes.start(&["worker"]).await;
    processes.wait_until_handled().await;
    assert_eq!(processes.count("SELECT count(*) FROM lending.payment_posting").await, 5);
    assert_eq!(processes.count("SELECT count(*) FROM onceward.dead_letters").await, 1);
    check_metrics(
        &api,
        &[
            (r#"payments_received_total{provider="mock",method="ach"}"#, 7.0),
            ("payments_duplicate_total", 1.0),
            (r#"payments_validated_total{result="fail",reason="currency"}"#, 1.0),
            (r#"payments_failed_total{reason="currency"}"#, 1.0),
            ("payments_outbox_published_total", 1.0),
        ],
    )
    .await;
    check_metrics(
        &worker,
        &[
            (r#"payments_validated_total{result="ok"}"#, 5.0),
            (r#"payments_validated_total{result="fail",reason="amount_too_large"}"#, 1.0),
            (r#"payments_failed_total{reason="amount_too_large"}"#, 1.0),
            ("payments_validation_latency_ms_count", 6.0),
            ("payments_posted_total", 5.0),
            ("payments_posting_latency_ms_count", 5.0),
            ("payments_e2e_latency_ms_count", 5.0),
            (r#"payments_e2e_latency_ms_bucket{le="300000"}"#, 5.0),
            ("payments_outbox_published_total", 6.0),
            (r#"onceward_consumers_online{queue="q.payments.validated"}"#, 1.0),
            (r#"loanserve_messages_processed_total{queue="q.payments.received",result="ok"}"#, 6.0),
            // One call per message, in buckets that a quantile can be computed from. A name of its own, as the alert
            // rules need it.
            (r#"loanserve_consumer_runtime_ms_bucket{queue="q.payments.validated",le="+Inf"}"#, 5.0),
            (r#"loanserve_consumer_runtime_ms_count{queue="q.payments.validated"}"#, 5.0),
        ],
    )
    .await;
    let metrics = read_metrics(&worker).await;
    let buckets: Vec<&String> = metrics
        .keys()
        .filter(|name| name.starts_with(r#"loanserve_consumer_runtime_ms_bucket{queue="q.payments.validated""#))
        .collect();
    assert!(buckets.iter().any(|name| name.contains(r#"le="3000""#)), "the alert's bound is a bucket: {buckets:?}");
    processes.stop().await;
}

#[tokio::test]
async fn on_an_external_bus_the_relay_counts_the_messages_that_the_bus_has_confirmed() {
    if left_out("rabbitmq") {
        return;
    }
    let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
    let namespace = format!("metrics-{}.", Uuid::now_v7().simple());
    let variables = [("BROKER_URL", url.as_str()), ("ONCEWARD_BUS_NAMESPACE", namespace.as_str())];
    let mut processes = LendingProcesses::new(&variables).await;
    let relay = processes.start(&["relay"]).await;
    let api = processes.start(&["api", "worker"]).await;
    let lending = LendingClient::new(api.clone());
    let loan_id = create_loan(&lending).await;
    for number in 0..3 {
        assert_eq!(pay(&lending, loan_id, &format!("t-{number}"), "100", json!({})).await.status, 201);
    }
    let published = "payments_outbox_published_total";
    eventually("three events are confirmed", || async {
        (read_metrics(&relay).await.get(published) == Some(&3.0)).then_some(())
    })
    .await;
    processes.wait_until_handled().await;
    check_metrics(&relay, &[(published, 3.0)]).await;
    // One loan of each tenant was created asynchronously.
    check_metrics(&api, &[("lending_loan_create_latency_ms_count", 2.0)]).await;
    assert_eq!(read_metrics(&api).await.get(published), None, "only the relay publishes");
    processes.stop().await;
}

#[tokio::test]
async fn the_duration_of_a_reporting_window_is_measured_from_its_tick() {
    let mut processes = LendingProcesses::new(&[]).await;
    let tick = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(10);
    let payload = json!({"schedule": "lending-etl", "scheduledFor": tick});
    let topic = "ls.schedules:tenant.acme.etl.schedule";
    let sql = "SELECT onceward.enqueue('acme', $1, 'etl.schedule.v1', $2::jsonb)::text";
    processes.owner.query_one(sql, &[&topic, &payload]).await.expect("the tick is published");
    let worker = processes.start(&["worker"]).await;
    // The tick's message waited ten minutes.
    let expected = [
        ("etl_window_seconds_count", 1.0),
        (r#"etl_window_seconds_bucket{le="300"}"#, 0.0),
        (r#"etl_window_seconds_bucket{le="3600"}"#, 1.0),
        ("etl_windows_completed_total", 1.0),
    ];
    check_metrics(&worker, &expected).await;
    processes.stop().await;
}
