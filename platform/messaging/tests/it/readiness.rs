//! What `/health/ready` reports about a process.

use crate::support::{Probe, bare_service, consumer, one_lane, service};
use onceward::{Platform, Service};
use onceward_testkit::{DatabaseProxy, TestDb, TestPlatform, eventually};
use std::time::Duration;

async fn readiness(base: &str) -> serde_json::Value {
    let response = reqwest::get(format!("{base}/health/ready")).await.expect("the query succeeds");
    response.json().await.expect("a report")
}

#[tokio::test]
async fn readiness_names_a_task_that_is_restarted() {
    let broken = Service::new("broken").task("unsteady", |_| async { panic!("on purpose") });
    let (probe, _calls) = Probe::good();
    let mut platform = TestPlatform::new(vec![service(one_lane(), consumer(probe)), broken]).await;
    let base = platform.serve_http().await;
    assert_eq!(readiness(&base).await["status"], "ready");
    platform.run_consumers();
    let detail = eventually("readiness names the task", || async {
        let report = readiness(&base).await;
        let tasks = report["checks"].as_array()?.iter().find(|check| check["name"] == "tasks")?.clone();
        (report["status"] == "degraded").then(|| tasks["detail"].as_str().map(str::to_owned))?
    })
    .await;
    assert!(detail.contains("task:unsteady"), "{detail}");
    let metrics =
        reqwest::get(format!("{base}/metrics")).await.expect("the query succeeds").text().await.expect("text");
    let restarts = metrics
        .lines()
        .find_map(|line| line.strip_prefix("onceward_task_restarts_total{task=\"task:unsteady\"} "))
        .map(|count| count.parse::<f64>().expect("a number"));
    assert!(restarts.is_some_and(|restarts| restarts >= 1.0), "{restarts:?} of\n{metrics}");
}

#[tokio::test]
async fn readiness_succeeds_although_checking_a_distant_database_takes_longer_than_a_request_waits() {
    let platform = Platform::assemble(vec![bare_service(one_lane())]).expect("the services are assembled");
    let database = TestDb::for_platform(&platform).await;
    let network = DatabaseProxy::with_delay(&database.url(), Duration::from_millis(80)).await;
    let mut distant = TestPlatform::with_config(database, platform, |config| config.database.url = network.url());
    let base = distant.serve_http().await;
    eventually("the process is ready", || async {
        let report = readiness(&base).await;
        (report["status"] == "ready").then_some(())
    })
    .await;
}
