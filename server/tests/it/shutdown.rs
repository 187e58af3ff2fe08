//! How a process stops: readiness fails first, a second signal ends it at once, and a clean stop logs nothing alarming.

use crate::support::{Process, SECRET, Scratch, UpServer, migrated_database, send_signal, try_get};
use onceward_testkit::{eventually, free_port};
use std::fs;

#[tokio::test]
async fn readiness_fails_before_the_listener_closes_and_a_second_signal_ends_the_process_at_once() {
    let (scratch, database) = (Scratch::new(), migrated_database().await);
    let (url, port) = (database.url(), free_port());
    let variables = |drain_ms: &'static str| {
        [("DATABASE_URL", url.as_str()), ("ONCEWARD_AUTH_SECRET", SECRET), ("ONCEWARD_SHUTDOWN_DRAIN_MS", drain_ms)]
    };
    let listen = format!("127.0.0.1:{port}");
    let args = ["serve", "--role", "api", "--listen", &listen];
    let health = |path: &str| format!("http://{listen}/health/{path}");
    let status = |path: &'static str| {
        let url = health(path);
        async move { try_get(&url, None).await }
    };

    let mut draining = Process::start(&args, &variables("600000"), &scratch.join("draining.log"));
    eventually("it is ready", || async { status("ready").await.filter(|(code, _)| *code == 200) }).await;
    send_signal("TERM", &draining.pid());
    let report = eventually("readiness fails", || async { status("ready").await.filter(|(code, _)| *code == 503) });
    let (_, report) = report.await;
    let failing: Vec<_> =
        report["checks"].as_array().expect("a list").iter().filter(|check| check["ok"] == false).collect();
    assert_eq!((failing.len(), failing[0]["name"].as_str()), (1, Some("shutdown")), "{report:#}");
    assert_eq!(status("live").await.expect("it still serves").0, 200);
    assert_eq!(draining.stop_with("TERM").await.code(), Some(128 + 15));

    let mut quick = Process::start(&args, &variables("1"), &scratch.join("quick.log"));
    eventually("it is ready", || async { status("ready").await.filter(|(code, _)| *code == 200) }).await;
    assert!(quick.stop_with("TERM").await.success(), "one signal is enough");
}

#[tokio::test]
async fn a_clean_stop_logs_no_warning() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    up.place_order("k").await;
    let before = fs::read_to_string(scratch.join("up.log")).expect("a log").len();
    assert!(up.process.stop_with("TERM").await.success());
    let log = fs::read_to_string(scratch.join("up.log")).expect("a log");
    assert!(!log[before..].contains("WARN") && !log[before..].contains("ERROR"), "{}", &log[before..]);
}

#[tokio::test]
async fn every_role_serves_health_and_metrics_even_beside_others_on_one_machine() {
    let (scratch, database) = (Scratch::new(), migrated_database().await);
    let url = database.url();
    let variables = [("DATABASE_URL", url.as_str()), ("ONCEWARD_AUTH_SECRET", SECRET)];
    let mut processes = Vec::new();
    for role in ["worker", "scheduler"] {
        let log = scratch.join(&format!("{role}.log"));
        let process = Process::start(&["serve", "--role", role], &variables, &log);
        let address = eventually("the log contains its address", || async {
            let log = fs::read_to_string(&log).ok()?;
            let line = log.lines().find(|line| line.contains("\"message\":\"serving\""))?.to_owned();
            let line: serde_json::Value = serde_json::from_str(&line).ok()?;
            Some(line["address"].as_str()?.to_owned())
        })
        .await;
        let ready = || async { try_get(&format!("http://{address}/health/ready"), None).await };
        eventually("it is ready", || async { ready().await.filter(|(code, _)| *code == 200) }).await;
        let metrics = crate::support::http().get(format!("http://{address}/metrics")).send().await.expect("metrics");
        assert_eq!(metrics.status(), 200);
        processes.push((process, address));
    }
    assert_ne!(processes[0].1, processes[1].1);
    for (mut process, _) in processes {
        assert!(process.stop_with("TERM").await.success());
    }
}
