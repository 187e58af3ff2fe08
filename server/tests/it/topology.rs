//! `onceward topology declare|check`.

use crate::{cli_fixture::CliFixture, support::services};
use onceward::Platform;
use onceward_testkit::{TestDb, TestPlatform, left_out, rabbitmq_url};
use serde_json::{Value, json};

/// An address on which nothing listens.
const NOWHERE: (&str, &str) = ("BROKER_URL", "amqp://127.0.0.1:1");

async fn cli_with_owner() -> (CliFixture, tokio_postgres::Client) {
    let platform = Platform::assemble(services()).expect("the services are valid");
    let database = TestDb::for_platform(&platform).await;
    let owner = database.owner().await;
    (CliFixture::with_database(database).await, owner)
}

fn difference<'a>(state: &'a Value, what: &str) -> &'a Value {
    let all = state["differences"].as_array().expect("a list");
    all.iter().find(|difference| difference["what"] == what).unwrap_or_else(|| panic!("{what} is not in {state:#}"))
}

#[tokio::test]
async fn a_database_as_declared_has_no_differences_and_nothing_to_create() {
    let (cli, _owner) = cli_with_owner().await;
    let checked = cli.run(&["topology", "check", "--json"]).await;
    assert_eq!((checked.code, &checked.json()[0]["equal"]), (0, &json!(true)), "{}", checked.stdout);
    assert_eq!(cli.run(&["topology", "check"]).await.stdout, "everything is as declared\n");
    let declared = cli.run(&["topology", "declare"]).await;
    assert_eq!((declared.code, declared.stdout.as_str()), (0, "there was nothing to create\n"));
}

#[tokio::test]
async fn missing_parts_are_named_and_then_created() {
    let (cli, owner) = cli_with_owner().await;
    owner
        .batch_execute(
            "DELETE FROM onceward.binding; DELETE FROM onceward.exchange WHERE name = 'orders.dlq';
             INSERT INTO onceward.binding SELECT 'orders.events', id, 'tenant.#', '^tenant' FROM onceward.queue WHERE name = 'orders.reserve.v1'",
        )
        .await
        .expect("the topology is changed");
    let checked = cli.run(&["topology", "check", "--json"]).await;
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

    let declared = cli.run(&["topology", "declare", "--json"]).await;
    let made = declared.json()[0]["made"].to_string();
    assert_eq!(declared.code, 0, "{}", declared.stderr);
    for what in [
        "exchange orders.dlq",
        "binding orders.reserve.v1: orders.events <- tenant.*.order.placed",
        "no longer binding",
    ] {
        assert!(made.contains(what), "{what}: {made}");
    }
    assert_eq!(cli.run(&["topology", "check"]).await.code, 0);
}

#[tokio::test]
async fn all_differences_that_cannot_be_fixed_are_named_and_nothing_is_changed() {
    let (cli, owner) = cli_with_owner().await;
    owner
        .batch_execute(
            "UPDATE onceward.queue SET shards = 3 WHERE name = 'orders.reserve.v1';
             UPDATE onceward.exchange SET kind = 'direct' WHERE name = 'orders.events';
             DELETE FROM onceward.binding",
        )
        .await
        .expect("the topology is changed");
    let declared = cli.run(&["topology", "declare", "--json"]).await;
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
    assert_eq!(bindings, 0, "nothing was created");
}

#[tokio::test]
async fn a_queue_that_is_no_longer_declared_is_reported_with_its_messages_and_can_be_unbound() {
    let (cli, owner) = cli_with_owner().await;
    owner
        .batch_execute(
            "INSERT INTO onceward.queue (name, shards, max_priority, definition) VALUES ('orders.old', 1, 0, '{\"name\": \"orders.old\"}');
             INSERT INTO onceward.binding SELECT 'orders.events', id, '#', '^.*$' FROM onceward.queue WHERE name = 'orders.old'",
        )
        .await
        .expect("the topology is changed");
    cli.publish("acme", "cup").await;
    let state = cli.run(&["topology", "check", "--json"]).await.json().remove(0);
    let old = difference(&state, "queue orders.old");
    assert_eq!(
        (&old["declared"], &old["found"]),
        (&json!("nothing"), &json!("a queue with 1 bindings and 1 messages"))
    );
    let advice = old["advice"].as_str().expect("advice");
    let statement = advice.split('`').nth(1).expect("a statement to run");
    owner.batch_execute(statement).await.expect("the advice works");
    let state = cli.run(&["topology", "check", "--json"]).await.json().remove(0);
    assert_eq!(difference(&state, "queue orders.old")["found"], "a queue with 0 bindings and 1 messages");
    assert_eq!(cli.run(&["topology", "declare"]).await.code, 0, "an undeclared queue is no obstacle");
}

#[tokio::test]
async fn an_unreachable_bus_exits_with_2_and_its_password_is_not_printed() {
    let (cli, _owner) = cli_with_owner().await;
    let secret = ("BROKER_URL", "amqp://user:hidden-word@127.0.0.1:1");
    for command in ["check", "declare"] {
        let output = cli.run_with(&["topology", command, "--timeout", "5s"], &[secret]).await;
        assert_eq!(output.code, 2, "{command}: {}", output.stderr);
        assert!(output.stderr.contains("rabbitmq") && !output.stderr.contains("hidden-word"), "{}", output.stderr);
        assert!(!output.stdout.contains("hidden-word"), "{}", output.stdout);
    }
    let state = cli.run_with(&["topology", "check", "--json"], &[NOWHERE]).await.json().remove(0);
    assert_eq!(
        (&difference(&state, "bus")["declared"], &difference(&state, "bus")["found"]),
        (&json!("rabbitmq"), &json!("postgres"))
    );
}

#[tokio::test]
async fn an_unreachable_database_exits_with_2() {
    let output =
        crate::support::run(&["topology", "check"], &[("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[tokio::test]
async fn an_external_bus_is_declared_and_checked() {
    if left_out("rabbitmq") {
        return;
    }
    let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
    let platform = TestPlatform::on_bus(services(), Some(&url)).await;
    let namespace = platform.config().bus.namespace.clone();
    let cli = CliFixture::on_database(platform.database().url(), platform.database().owner().await);
    let bus = [("BROKER_URL", url.as_str()), ("ONCEWARD_BUS_NAMESPACE", namespace.as_str())];

    let checked = cli.run_with(&["topology", "check", "--json"], &bus).await;
    assert_eq!(checked.code, 1, "nothing is declared: {}", checked.stderr);
    let state = checked.json().remove(0);
    assert!(
        state["differences"].as_array().is_some_and(|all| all.iter().all(|one| one["on"] == "rabbitmq")),
        "{state:#}"
    );

    let declared = cli.run_with(&["topology", "declare", "--json"], &bus).await;
    assert_eq!(declared.code, 0, "{} {}", declared.stdout, declared.stderr);
    assert!(declared.json()[0]["made"].as_array().is_some_and(|made| made.iter().any(|one| one["on"] == "rabbitmq")));

    // Without the management API, which test brokers lack, it is unknown whether the bindings are as declared.
    let again = cli.run_with(&["topology", "check"], &bus).await;
    assert_eq!(again.code, 0, "{}", again.stderr);
    let sentence = "everything that could be checked is as declared; rabbitmq: bindings could not be compared";
    assert!(again.stdout.starts_with(sentence) && again.stdout.lines().count() == 1, "{}", again.stdout);
    let state = cli.run_with(&["topology", "check", "--json"], &bus).await.json().remove(0);
    assert_eq!((&state["equal"], state["unchecked"].as_array().map(Vec::len)), (&Value::Null, Some(1)), "{state:#}");
}
