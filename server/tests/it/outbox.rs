//! `onceward outbox`, and `onceward queues` on an external bus.

use crate::{cli_fixture::CliFixture, support::services};
use onceward::{Platform, broker::BusKind};
use onceward_testkit::{TestDb, TestPlatform, eventually, left_out, redis_url};
use serde_json::json;

/// An address on which nothing listens.
const NOWHERE: (&str, &str) = ("BROKER_URL", "redis://127.0.0.1:1");

/// Creates a database whose messages use a bus that does not exist.
async fn cli_without_bus() -> CliFixture {
    let platform = Platform::assemble(services()).expect("the services are valid");
    CliFixture::with_database(TestDb::for_platform_on(&platform, BusKind::Redis).await).await
}

#[tokio::test]
async fn on_postgres_the_outbox_is_healthy_and_not_listed_as_a_queue() {
    let cli = CliFixture::new().await;
    let status = cli.run(&["outbox", "status", "--json"]).await;
    assert_eq!(status.code, 0, "{}", status.stderr);
    let status = status.json().remove(0);
    assert_eq!(
        (&status["bus"], &status["settings"], &status["unpublished"]),
        (&json!("postgres"), &json!("postgres"), &json!(0))
    );
    assert!(cli.run(&["outbox", "status"]).await.stdout.contains("the commit publishes"));
    let queues = cli.run(&["queues", "--json"]).await.json();
    assert!(queues.iter().all(|queue| queue["queue"] != "@outbox" && queue.get("onTheBus").is_none()), "{queues:?}");
    cli.insert_dead_letter_in("@outbox", "acme", "cup", "refused_by_bus").await;
    let queues = cli.run(&["queues", "--json"]).await.json();
    assert!(queues.iter().any(|queue| queue["queue"] == "@outbox"), "messages left for another bus are shown");
}

#[tokio::test]
async fn messages_that_wait_for_a_relay_are_reported_as_a_problem() {
    let cli = cli_without_bus().await;
    let status = cli.run_with(&["outbox", "status", "--json"], &[NOWHERE]).await;
    assert_eq!(status.code, 0, "nothing waits: {}", status.stderr);
    assert!(status.json()[0]["busError"].is_string(), "{}", status.stdout);
    cli.publish("acme", "cup").await;
    let status = cli.run_with(&["outbox", "status", "--json"], &[NOWHERE]).await;
    assert_eq!((status.code, &status.json()[0]["unpublished"]), (1, &json!(1)));
    let text = cli.run_with(&["outbox", "status"], &[NOWHERE]).await;
    assert!(text.code == 1 && text.stderr.contains("no relay is running"), "{}", text.stderr);
    let other = cli.run(&["outbox", "status"]).await;
    assert!(other.stdout.contains("bus           redis; the settings name postgres"), "{}", other.stdout);
    let queues = cli.run_with(&["queues", "--json"], &[NOWHERE]).await;
    assert!(queues.stderr.contains("the messages on the bus are unknown"), "{}", queues.stderr);
    let outbox = queues.json().into_iter().find(|queue| queue["queue"] == "@outbox").expect("the queue is listed");
    assert_eq!((&outbox["waiting"], &outbox["onTheBus"]), (&json!(1), &json!(null)));
}

#[tokio::test]
async fn dead_letters_of_the_outbox_are_requeued_with_a_reason() {
    let cli = cli_without_bus().await;
    assert_eq!(cli.run(&["outbox", "retry"]).await.code, 3);
    assert_eq!(cli.run(&["outbox", "retry", "--dead"]).await.code, 2, "--why is required");
    assert_eq!(cli.run(&["outbox", "retry", "--dead", "--why", "larger now"]).await.code, 3);
    cli.insert_dead_letter_in("@outbox", "acme", "cup", "refused_by_bus").await;
    cli.insert_dead_letter("acme", "pot").await;
    let retried = cli.run(&["outbox", "retry", "--dead", "--why", "larger now", "--json"]).await;
    assert_eq!((retried.code, retried.json().len()), (0, 1), "{}", retried.stderr);
    let act = cli.run(&["dlq", "history", "--json"]).await.json().remove(0);
    assert_eq!(
        (&act["why"], &act["queue"], &act["act"]),
        (&json!("larger now"), &json!("@outbox"), &json!("requeued"))
    );
    let status = cli.run_with(&["outbox", "status", "--json"], &[NOWHERE]).await;
    assert_eq!((status.code, &status.json()[0]["unpublished"], &status.json()[0]["dead"]), (1, &json!(1), &json!(0)));
}

#[tokio::test]
async fn the_number_of_messages_on_a_reachable_bus_is_shown() {
    if left_out("redis") {
        return;
    }
    let redis = tokio::task::spawn_blocking(redis_url).await.expect("a Redis server");
    let mut platform = TestPlatform::on_bus(services(), Some(&redis)).await;
    platform.run_relay();
    let cli = CliFixture::on_database(platform.database().url(), platform.database().owner().await);
    cli.publish("acme", "cup").await;
    let namespace = platform.config().bus.namespace.clone();
    let settings = [("BROKER_URL", redis.as_str()), ("ONCEWARD_BUS_NAMESPACE", &namespace), ("USER", "olga")];
    let status = eventually("the message is on the bus", || async {
        let status = cli.run_with(&["outbox", "status", "--json"], &settings).await;
        let shown = status.json().remove(0);
        let held =
            shown["onTheBus"].as_array()?.iter().find(|held| held["queue"] == crate::cli_fixture::QUEUE)?["waiting"] == 1;
        held.then_some((status.code, shown))
    })
    .await;
    assert_eq!((status.0, &status.1["relays"][0]["up"], &status.1["trouble"]), (0, &json!(true), &json!(null)));
    let queues = cli.run_with(&["queues", "--json"], &settings).await.json();
    let reserve = queues.iter().find(|queue| queue["queue"] == crate::cli_fixture::QUEUE).expect("the queue is listed");
    assert_eq!(reserve["onTheBus"], 1);
    let table = cli.run_with(&["queues"], &settings).await.stdout;
    assert!(table.contains("on the bus") && table.contains("@outbox"), "{table}");
    let nothing = cli.run_with(&["dlq", "collect"], &settings).await;
    assert_eq!((nothing.code, nothing.stderr.as_str()), (3, "there was nothing to collect\n"));
    let unknown = cli.run_with(&["dlq", "collect", "--queue", "x"], &settings).await;
    assert!(unknown.code == 2 && unknown.stderr.contains("orders.dlq.v1"), "{}", unknown.stderr);
}
