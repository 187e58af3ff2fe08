//! `onceward outbox`, and `onceward queues` on an external bus.

use crate::{letters::Desk, support::services};
use onceward::{Platform, transport::BusKind};
use onceward_testkit::{TestDb, TestPlatform, eventually, redis_url};
use serde_json::json;

/// Nobody listens there.
const NOWHERE: (&str, &str) = ("BROKER_URL", "redis://127.0.0.1:1");

/// A database whose messages go over a bus that is not there.
async fn cut_off() -> Desk {
    let platform = Platform::assemble(services()).expect("the services fit");
    Desk::on(TestDb::for_platform_on(&platform, BusKind::Redis).await).await
}

#[tokio::test]
async fn on_postgres_all_is_well_and_the_outbox_is_no_queue() {
    let desk = Desk::new().await;
    let status = desk.run(&["outbox", "status", "--json"]).await;
    assert_eq!(status.code, 0, "{}", status.said);
    let status = status.json().remove(0);
    assert_eq!(
        (&status["bus"], &status["settings"], &status["unpublished"]),
        (&json!("postgres"), &json!("postgres"), &json!(0))
    );
    assert!(desk.run(&["outbox", "status"]).await.printed.contains("the commit publishes"));
    let queues = desk.run(&["queues", "--json"]).await.json();
    assert!(queues.iter().all(|queue| queue["queue"] != "@outbox" && queue.get("onTheBus").is_none()), "{queues:?}");
    desk.bury_in("@outbox", "acme", "cup", "refused_by_bus").await;
    let queues = desk.run(&["queues", "--json"]).await.json();
    assert!(queues.iter().any(|queue| queue["queue"] == "@outbox"), "what another bus left is shown");
}

#[tokio::test]
async fn messages_that_wait_for_a_relay_are_trouble() {
    let desk = cut_off().await;
    let status = desk.run_with(&["outbox", "status", "--json"], &[NOWHERE]).await;
    assert_eq!(status.code, 0, "nothing waits: {}", status.said);
    assert!(status.json()[0]["busError"].is_string(), "{}", status.printed);
    desk.publish("acme", "cup").await;
    let status = desk.run_with(&["outbox", "status", "--json"], &[NOWHERE]).await;
    assert_eq!((status.code, &status.json()[0]["unpublished"]), (1, &json!(1)));
    let words = desk.run_with(&["outbox", "status"], &[NOWHERE]).await;
    assert!(words.code == 1 && words.said.contains("no relay runs"), "{}", words.said);
    let other = desk.run(&["outbox", "status"]).await;
    assert!(other.printed.contains("bus           redis; the settings name postgres"), "{}", other.printed);
    let queues = desk.run_with(&["queues", "--json"], &[NOWHERE]).await;
    assert!(queues.said.contains("what the bus holds is not known"), "{}", queues.said);
    let outbox = queues.json().into_iter().find(|queue| queue["queue"] == "@outbox").expect("it is listed");
    assert_eq!((&outbox["waiting"], &outbox["onTheBus"]), (&json!(1), &json!(null)));
}

#[tokio::test]
async fn dead_letters_of_the_outbox_are_requeued_with_a_reason() {
    let desk = cut_off().await;
    assert_eq!(desk.run(&["outbox", "retry"]).await.code, 3);
    assert_eq!(desk.run(&["outbox", "retry", "--dead"]).await.code, 2, "--why is required");
    assert_eq!(desk.run(&["outbox", "retry", "--dead", "--why", "larger now"]).await.code, 3);
    desk.bury_in("@outbox", "acme", "cup", "refused_by_bus").await;
    desk.bury("acme", "pot").await;
    let retried = desk.run(&["outbox", "retry", "--dead", "--why", "larger now", "--json"]).await;
    assert_eq!((retried.code, retried.json().len()), (0, 1), "{}", retried.said);
    let act = desk.run(&["dlq", "history", "--json"]).await.json().remove(0);
    assert_eq!(
        (&act["why"], &act["queue"], &act["act"]),
        (&json!("larger now"), &json!("@outbox"), &json!("requeued"))
    );
    let status = desk.run_with(&["outbox", "status", "--json"], &[NOWHERE]).await;
    assert_eq!((status.code, &status.json()[0]["unpublished"], &status.json()[0]["dead"]), (1, &json!(1), &json!(0)));
}

#[tokio::test]
async fn a_bus_that_answers_says_what_it_holds() {
    let redis = tokio::task::spawn_blocking(redis_url).await.expect("a Redis can be had");
    let mut platform = TestPlatform::on_bus(services(), Some(&redis)).await;
    platform.run_relay();
    let desk = Desk::at(platform.database().url(), platform.database().owner().await);
    desk.publish("acme", "cup").await;
    let namespace = platform.config().bus.namespace.clone();
    let settings = [("BROKER_URL", redis.as_str()), ("ONCEWARD_BUS_NAMESPACE", &namespace), ("USER", "olga")];
    let status = eventually("the message is on the bus", || async {
        let status = desk.run_with(&["outbox", "status", "--json"], &settings).await;
        let shown = status.json().remove(0);
        let held =
            shown["onTheBus"].as_array()?.iter().find(|held| held["queue"] == crate::letters::QUEUE)?["waiting"] == 1;
        held.then_some((status.code, shown))
    })
    .await;
    assert_eq!((status.0, &status.1["relays"][0]["up"], &status.1["trouble"]), (0, &json!(true), &json!(null)));
    let queues = desk.run_with(&["queues", "--json"], &settings).await.json();
    let reserve = queues.iter().find(|queue| queue["queue"] == crate::letters::QUEUE).expect("it is listed");
    assert_eq!(reserve["onTheBus"], 1);
    let table = desk.run_with(&["queues"], &settings).await.printed;
    assert!(table.contains("on the bus") && table.contains("@outbox"), "{table}");
    let nothing = desk.run_with(&["dlq", "collect"], &settings).await;
    assert_eq!((nothing.code, nothing.said.as_str()), (3, "there was nothing to collect\n"));
    let unknown = desk.run_with(&["dlq", "collect", "--queue", "x"], &settings).await;
    assert!(unknown.code == 2 && unknown.said.contains("orders.dlq.v1"), "{}", unknown.said);
}
