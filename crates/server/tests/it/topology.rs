//! `onceward topology declare|check`.

use crate::{letters::Desk, support::services};
use onceward::Platform;
use onceward_testkit::{TestDb, TestPlatform, left_out, rabbitmq_url};
use serde_json::{Value, json};

/// Nobody listens there.
const NOWHERE: (&str, &str) = ("BROKER_URL", "amqp://127.0.0.1:1");

async fn desk() -> (Desk, tokio_postgres::Client) {
    let platform = Platform::assemble(services()).expect("the services fit");
    let database = TestDb::for_platform(&platform).await;
    let owner = database.owner().await;
    (Desk::on(database).await, owner)
}

fn difference<'a>(state: &'a Value, what: &str) -> &'a Value {
    let all = state["differences"].as_array().expect("a list");
    all.iter().find(|one| one["what"] == what).unwrap_or_else(|| panic!("{what} is not in {state:#}"))
}

#[tokio::test]
async fn a_database_as_declared_does_not_differ_and_has_nothing_to_make() {
    let (desk, _owner) = desk().await;
    let checked = desk.run(&["topology", "check", "--json"]).await;
    assert_eq!((checked.code, &checked.json()[0]["equal"]), (0, &json!(true)), "{}", checked.printed);
    assert_eq!(desk.run(&["topology", "check"]).await.printed, "everything is as declared\n");
    let declared = desk.run(&["topology", "declare"]).await;
    assert_eq!((declared.code, declared.printed.as_str()), (0, "there was nothing to make\n"));
}

#[tokio::test]
async fn what_is_missing_is_named_and_then_made() {
    let (desk, owner) = desk().await;
    owner
        .batch_execute(
            "DELETE FROM onceward.binding; DELETE FROM onceward.exchange WHERE name = 'orders.dlq';
             INSERT INTO onceward.binding SELECT 'orders.events', id, 'tenant.#', '^tenant' FROM onceward.queue WHERE name = 'orders.reserve.v1'",
        )
        .await
        .expect("it is altered");
    let checked = desk.run(&["topology", "check", "--json"]).await;
    assert_eq!(checked.code, 1);
    let state = checked.json().remove(0);
    assert_eq!(difference(&state, "exchange orders.dlq")["found"], "nothing");
    let bindings: Vec<&Value> = state["differences"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|one| one["what"] == "binding of orders.reserve.v1")
        .collect();
    assert_eq!(bindings.len(), 2, "one is missing, one is too many: {state:#}");

    let declared = desk.run(&["topology", "declare", "--json"]).await;
    let made = declared.json()[0]["made"].to_string();
    assert_eq!(declared.code, 0, "{}", declared.said);
    for what in [
        "exchange orders.dlq",
        "binding orders.reserve.v1: orders.events <- tenant.*.order.placed",
        "no longer binding",
    ] {
        assert!(made.contains(what), "{what}: {made}");
    }
    assert_eq!(desk.run(&["topology", "check"]).await.code, 0);
}

#[tokio::test]
async fn what_cannot_be_changed_is_all_named_and_nothing_is_touched() {
    let (desk, owner) = desk().await;
    owner
        .batch_execute(
            "UPDATE onceward.queue SET shards = 3 WHERE name = 'orders.reserve.v1';
             UPDATE onceward.exchange SET kind = 'direct' WHERE name = 'orders.events';
             DELETE FROM onceward.binding",
        )
        .await
        .expect("it is altered");
    let declared = desk.run(&["topology", "declare", "--json"]).await;
    assert_eq!(declared.code, 1);
    let state = declared.json().remove(0);
    assert!(
        difference(&state, "queue orders.reserve.v1")["advice"]
            .as_str()
            .is_some_and(|advice| advice.contains("new queue"))
    );
    assert_eq!(difference(&state, "queue orders.reserve.v1")["found"], "3 shards, priorities up to 0");
    assert_eq!(difference(&state, "exchange orders.events")["found"], "direct");
    assert_eq!(state["made"], json!([]));
    let bindings: i64 = owner.query_one("SELECT count(*) FROM onceward.binding", &[]).await.expect("a count").get(0);
    assert_eq!(bindings, 0, "nothing was made by halves");
}

#[tokio::test]
async fn a_queue_that_is_not_declared_any_more_is_told_with_what_waits_in_it_and_can_be_taken_out() {
    let (desk, owner) = desk().await;
    owner
        .batch_execute(
            "INSERT INTO onceward.queue (name, shards, max_priority, definition) VALUES ('orders.old', 1, 0, '{\"name\": \"orders.old\"}');
             INSERT INTO onceward.binding SELECT 'orders.events', id, '#', '^.*$' FROM onceward.queue WHERE name = 'orders.old'",
        )
        .await
        .expect("it is altered");
    desk.publish("acme", "cup").await;
    let state = desk.run(&["topology", "check", "--json"]).await.json().remove(0);
    let old = difference(&state, "queue orders.old");
    assert_eq!(
        (&old["declared"], &old["found"]),
        (&json!("nothing"), &json!("a queue with 1 bindings and 1 messages"))
    );
    let advice = old["advice"].as_str().expect("advice");
    let statement = advice.split('`').nth(1).expect("a statement to run");
    owner.batch_execute(statement).await.expect("the advice works");
    let state = desk.run(&["topology", "check", "--json"]).await.json().remove(0);
    assert_eq!(difference(&state, "queue orders.old")["found"], "a queue with 0 bindings and 1 messages");
    assert_eq!(desk.run(&["topology", "declare"]).await.code, 0, "a leftover does not stand in the way");
}

#[tokio::test]
async fn a_bus_that_does_not_answer_ends_it_with_2_and_its_password_is_not_told() {
    let (desk, _owner) = desk().await;
    let secret = ("BROKER_URL", "amqp://user:hidden-word@127.0.0.1:1");
    for command in ["check", "declare"] {
        let ended = desk.run_with(&["topology", command, "--timeout", "5s"], &[secret]).await;
        assert_eq!(ended.code, 2, "{command}: {}", ended.said);
        assert!(ended.said.contains("rabbitmq") && !ended.said.contains("hidden-word"), "{}", ended.said);
        assert!(!ended.printed.contains("hidden-word"), "{}", ended.printed);
    }
    let state = desk.run_with(&["topology", "check", "--json"], &[NOWHERE]).await.json().remove(0);
    assert_eq!(
        (&difference(&state, "bus")["declared"], &difference(&state, "bus")["found"]),
        (&json!("rabbitmq"), &json!("postgres"))
    );
}

#[tokio::test]
async fn a_database_that_does_not_answer_ends_it_with_2() {
    let ended =
        crate::support::run(&["topology", "check"], &[("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")]).await;
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
}

#[tokio::test]
async fn an_external_bus_is_declared_and_checked() {
    if left_out("rabbitmq") {
        return;
    }
    let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
    let platform = TestPlatform::on_bus(services(), Some(&url)).await;
    let namespace = platform.config().bus.namespace.clone();
    let desk = Desk::at(platform.database().url(), platform.database().owner().await);
    let bus = [("BROKER_URL", url.as_str()), ("ONCEWARD_BUS_NAMESPACE", namespace.as_str())];

    let checked = desk.run_with(&["topology", "check", "--json"], &bus).await;
    assert_eq!(checked.code, 1, "nothing is there: {}", checked.said);
    let state = checked.json().remove(0);
    assert!(
        state["differences"].as_array().is_some_and(|all| all.iter().all(|one| one["on"] == "rabbitmq")),
        "{state:#}"
    );

    let declared = desk.run_with(&["topology", "declare", "--json"], &bus).await;
    assert_eq!(declared.code, 0, "{} {}", declared.printed, declared.said);
    assert!(declared.json()[0]["made"].as_array().is_some_and(|made| made.iter().any(|one| one["on"] == "rabbitmq")));
    let again = desk.run_with(&["topology", "check"], &bus).await;
    assert_eq!((again.code, again.printed.as_str()), (0, "everything is as declared\n"), "{}", again.said);
}
