//! Messages that wait on the bus while no worker runs are reported by every process.

use crate::support::{
    api::ApiClient,
    bus::{Bus, broker, on_buses},
    processes::{example, token},
};
use onceward::{
    Config, Platform,
    broker::{Broker, BusKind, Parcel, PublishOutcome, wire},
    slo,
};
use onceward_cli::doctor::{self, DoctorFinding, DoctorLimits};
use onceward_example_orders::service;
use onceward_testkit::{Fleet, HttpResponse, PrivateDatabase, eventually, free_port, wait_until_ready};
use serde_json::json;
use uuid::Uuid;

const QUEUE: &str = "orders.reserve.v1";
const ORDERS: u64 = 20;
const OLD_MESSAGES: u64 = 5;

on_buses!(waiting_messages_are_reported_as_depth_and_lag_by_every_process:
    on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
async fn waiting_messages_are_reported_as_depth_and_lag_by_every_process(bus: Bus) {
    let polling_often = example().with("ONCEWARD_BUS_BACKLOG_EVERY_MS", "200");
    let database = PrivateDatabase::start(&example(), &bus).await;
    let (owner, broker) = (database.owner().await, broker(&bus));
    let mut api = Fleet::without_processes(&polling_often, &database, &bus);
    let metrics = format!("127.0.0.1:{}", free_port());
    let with_metrics = polling_often.with("ONCEWARD_HTTP_METRICS_LISTEN", &metrics);
    let mut relay = Fleet::without_processes(&with_metrics, &database, &bus);
    relay.start_process(Fleet::RELAYS[0]);
    api.start_process(Fleet::API);
    api.wait_until_ready(Fleet::API).await;
    let relay_url = format!("http://{metrics}");
    wait_until_ready(&relay_url).await;
    let everywhere = [api.url(), relay_url];

    for url in &everywhere {
        wait_until(url, "an empty queue is known to be empty", |metrics| {
            metrics.known() == Some(1.0) && metrics.depth() == Some(0.0) && metrics.lag() == Some(0.0)
        })
        .await;
    }
    place_orders(&ApiClient::of(&api)).await;
    for url in &everywhere {
        wait_until(url, "all orders count as waiting", |metrics| metrics.depth() == Some(ORDERS as f64)).await;
        let first = wait_until(url, "the oldest message has an age", |metrics| metrics.lag() > Some(0.0)).await;
        let longer = first.lag().map(|lag| lag + 1.0);
        wait_until(url, "the age grows", |metrics| metrics.lag() > longer).await;
    }
    // With a worker everything is handled, and both metrics return to zero.
    api.start_process(Fleet::WORKERS[0]);
    for url in &everywhere {
        wait_until(url, "nothing waits any more", |metrics| metrics.depth() == Some(0.0) && metrics.lag() == Some(0.0))
            .await;
    }
    api.kill(Fleet::WORKERS[0]).await;
    publish_old_messages(&*broker).await;
    wait_until(&everywhere[0], "old messages wait", |metrics| metrics.lag() > Some(0.0)).await;
    if bus.kind == BusKind::RabbitMq {
        // RabbitMQ does not report their age, so backdate when the queue was first seen filled.
        let aged = "UPDATE onceward.bus_backlog SET oldest_at = oldest_at - interval '10 minutes' WHERE queue = $1";
        assert_eq!(owner.execute(aged, &[&QUEUE]).await.expect("the query succeeds"), 1);
    }
    for url in &everywhere {
        wait_until(url, "the alert's expression is true", |metrics| metrics.lag() > Some(alert_threshold_s())).await;
    }
    check_doctor_reports_backlog(&database, &bus).await;
    broker.close().await;
    api.stop().await;
    relay.stop().await;
}

async fn check_doctor_reports_backlog(database: &PrivateDatabase, bus: &Bus) {
    let platform = Platform::assemble(vec![service()]).expect("the service is valid");
    let mut config = Config::load_with(None, &[], |_| None).expect("the defaults are valid");
    config.database.url = database.url().to_owned();
    config.bus.url = bus.url.clone().unwrap_or_default();
    config.bus.namespace = bus.namespace.clone();
    eventually("the doctor reports the backlog", || async {
        let report = doctor::run_checks(&platform, &config, DoctorLimits::default()).await;
        let waits = |finding: &DoctorFinding| finding.check == "backlog" && finding.what.contains(QUEUE);
        report.findings.iter().any(waits).then_some(())
    })
    .await;
}

on_buses!(an_unreachable_bus_is_not_reported_as_empty: on_redis Redis);
async fn an_unreachable_bus_is_not_reported_as_empty(bus: Bus) {
    let proxy = onceward_testkit::TcpProxy::in_front_of(bus.url.as_deref().unwrap());
    let behind = Bus { url: Some(proxy.url(bus.url.as_deref().unwrap())), ..bus };
    let polling_often = example().with("ONCEWARD_BUS_BACKLOG_EVERY_MS", "200");
    let database = PrivateDatabase::start(&example(), &behind).await;
    let mut fleet = Fleet::without_processes(&polling_often, &database, &behind);
    fleet.start_process(Fleet::API);
    fleet.start_process(Fleet::RELAYS[0]);
    fleet.wait_until_ready(Fleet::API).await;
    let url = fleet.url();
    place_orders(&ApiClient::of(&fleet)).await;
    let all = Some(ORDERS as f64);
    wait_until(&url, "all orders count as waiting", |metrics| metrics.depth() == all && metrics.known() == Some(1.0))
        .await;
    proxy.cut();
    let unknown = wait_until(&url, "the metrics are marked as incomplete", |metrics| metrics.known() == Some(0.0));
    assert_eq!(unknown.await.depth(), all, "the last known value is kept");
    proxy.resume();
    wait_until(&url, "the metrics are complete again", |metrics| metrics.known() == Some(1.0)).await;
    fleet.stop().await;
}

/// The output of `/metrics`.
struct BacklogMetrics(String);

impl BacklogMetrics {
    fn value(&self, series: &str) -> Option<f64> {
        self.0.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
    }

    fn depth(&self) -> Option<f64> {
        self.value(&format!("loanserve_queue_depth{{queue=\"{QUEUE}\"}}"))
    }

    fn lag(&self) -> Option<f64> {
        self.value(&format!("loanserve_consumer_lag_seconds{{queue=\"{QUEUE}\"}}"))
    }

    fn known(&self) -> Option<f64> {
        let line = self.0.lines().find(|line| line.starts_with("onceward_bus_backlog_known{"))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

async fn wait_until(url: &str, what: &str, condition: impl Fn(&BacklogMetrics) -> bool) -> BacklogMetrics {
    onceward::install_crypto_provider();
    let http = reqwest::Client::new();
    eventually(&format!("{what} at {url}"), || async {
        let response = HttpResponse::try_to(http.get(format!("{url}/metrics"))).await.ok()?;
        let metrics = BacklogMetrics(response.text);
        condition(&metrics).then_some(metrics)
    })
    .await
}

/// Returns the alert's threshold, after checking that its objective uses the metric that the test reads.
fn alert_threshold_s() -> f64 {
    let platform = Platform::assemble(vec![service()]).expect("the service is valid");
    let slos = slo::all(&platform);
    let (_, lag) = slos.iter().find(|(_, slo)| slo.name == "consumer-lag").expect("the objective exists");
    let metrics = onceward_cli::slo::metrics_of(lag);
    assert!(metrics.contains("loanserve_consumer_lag_seconds"), "{metrics:?}");
    let alert = lag.alerts.iter().find(|alert| alert.alert == "OncewardConsumerLag").expect("the alert exists");
    let (_, threshold) = alert.expr.split_once(" > ").expect("a threshold");
    threshold.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

async fn place_orders(api: &ApiClient) {
    for number in 0..ORDERS {
        let order = json!({"sku": "article", "quantity": 1});
        api.place(&token("acme"), &format!("order-{number}"), &order).await.with_status(202);
    }
}

/// Publishes messages of another program that carry an old publication time.
async fn publish_old_messages(broker: &dyn Broker) {
    let verdicts = broker.publish((0..OLD_MESSAGES).map(old_parcel).collect()).await.expect("the bus accepts them");
    assert!(verdicts.iter().all(|verdict| *verdict == PublishOutcome::Accepted), "{verdicts:?}");
}

fn old_parcel(number: u64) -> Parcel {
    let (topic, key) = ("orders.events:tenant.acme.order.placed", format!("key-{number}"));
    let headers = [
        (wire::TOPIC, topic.to_owned()),
        (wire::ORDERING_KEY, key.clone()),
        (wire::PUBLISHED_AT, "2026-01-01T00:00:00Z".to_owned()),
    ];
    Parcel {
        id: Uuid::now_v7(),
        topic: topic.parse::<onceward::topology::Topic>().expect("a topic").into(),
        ordering_key: Some(key),
        priority: 0,
        headers: headers.into_iter().collect(),
        body: "{}".into(),
        expected: true,
    }
}
