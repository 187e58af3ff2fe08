//! `onceward trace`: a request's story, with messages that were retried, died or still wait.

use crate::{
    cli_fixture::{CliFixture, CommandOutput},
    support::http,
};
use onceward::prelude::*;
use onceward_testkit::{HttpResponse, TestPlatform, eventually, left_out, rabbitmq_url};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

const SCHEMAS: &[&str] = &[
    r#"{"$id": "chain.first.v1", "type": "object"}"#,
    r#"{"$id": "chain.second.v1", "type": "object"}"#,
    r#"{"$id": "chain.third.v1", "type": "object"}"#,
];

/// Declares an event of the chain; its step is also its routing key.
macro_rules! event {
    ($name:ident, $step:literal) => {
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        struct $name {}

        impl Event for $name {
            const TYPE: &'static str = concat!("chain.", $step, ".v1");
            const EXCHANGE: &'static str = "chain.events";

            fn routing_key(&self, tenant: &TenantId) -> String {
                format!("tenant.{tenant}.{}", $step)
            }
        }
    };
}

event!(FirstStep, "first");
event!(SecondStep, "second");
event!(ThirdStep, "third");

struct PublishSecond;

impl Handler for PublishSecond {
    type Event = FirstStep;

    async fn handle(&self, tx: &mut Tx, _: &Received<'_, FirstStep>) -> Result<(), Failure> {
        outbox::publish(tx, &SecondStep {}).await?;
        Ok(())
    }
}

struct PublishThird;

impl Handler for PublishThird {
    type Event = SecondStep;

    async fn handle(&self, tx: &mut Tx, _: &Received<'_, SecondStep>) -> Result<(), Failure> {
        outbox::publish(tx, &ThirdStep {}).await?;
        Ok(())
    }
}

struct RetryLater;

impl Handler for RetryLater {
    type Event = ThirdStep;

    async fn handle(&self, _: &mut Tx, _: &Received<'_, ThirdStep>) -> Result<(), Failure> {
        Err(Failure::retry_after(Duration::from_secs(3_600), "not available"))
    }
}

struct Reject;

impl Handler for Reject {
    type Event = ThirdStep;

    async fn handle(&self, _: &mut Tx, _: &Received<'_, ThirdStep>) -> Result<(), Failure> {
        Err(Failure::permanent("not possible"))
    }
}

/// A service with three steps; the last goes to a queue that retries, one that gives up, and one without a consumer.
fn chain_service() -> Service {
    let queue = |name: &str| Queue::work(name).shards(1);
    let topology = Topology::new()
        .exchange(Exchange::topic("chain.events"))
        .queue(queue("chain.first"))
        .queue(queue("chain.second"))
        .queue(queue("chain.retried"))
        .queue(queue("chain.rejected"))
        .queue(queue("chain.unread"))
        .bind("chain.events", "tenant.*.first", "chain.first")
        .bind("chain.events", "tenant.*.second", "chain.second")
        .bind("chain.events", "tenant.*.third", "chain.retried")
        .bind("chain.events", "tenant.*.third", "chain.rejected")
        .bind("chain.events", "tenant.*.third", "chain.unread");
    Service::new("chain")
        .schemas(SCHEMAS)
        .topology(topology)
        .consumer(Consumer::transactional("publish-second", "chain.first").on(PublishSecond))
        .consumer(Consumer::transactional("publish-third", "chain.second").on(PublishThird))
        .consumer(Consumer::transactional("retry-later", "chain.retried").on(RetryLater))
        .consumer(Consumer::transactional("reject", "chain.rejected").on(Reject))
}

async fn cli_on(platform: &TestPlatform) -> CliFixture {
    CliFixture::on_database(platform.database().url(), platform.database().owner().await)
}

/// Returns the state of a message in a queue.
fn place<'a>(message: &'a Value, queue: &str) -> &'a Value {
    let places = message["places"].as_array().expect("a list");
    places.iter().find(|place| place["queue"] == queue).unwrap_or_else(|| panic!("{queue} is not in {message:#}"))
}

/// Runs the chain until its last step has been attempted; returns its correlation id.
async fn run_chain(platform: &mut TestPlatform) -> String {
    let scope = platform.scope("acme");
    let correlation = scope.correlation_id.to_string();
    let mut tx = platform.db().begin(scope).await.expect("a connection");
    outbox::publish(&mut tx, &FirstStep {}).await.expect("the message is published");
    tx.commit().await.expect("the commit succeeds");
    platform.run_consumers();
    let owner = platform.database().owner().await;
    eventually("the last step was attempted", || async {
        let attempted =
            "SELECT (SELECT count(*) FROM onceward.deferred) + (SELECT count(*) FROM onceward.dead_letters)";
        let attempted: i64 = owner.query_one(attempted, &[]).await.ok()?.get(0);
        (attempted == 2).then_some(())
    })
    .await;
    correlation
}

#[tokio::test]
async fn a_story_is_a_tree_with_the_state_of_each_message_in_each_queue() {
    let mut platform = TestPlatform::new(vec![chain_service()]).await;
    let correlation = run_chain(&mut platform).await;
    let cli = cli_on(&platform).await;

    let story = cli.run(&["trace", &correlation, "--json"]).await.json().remove(0);
    let messages = story["messages"].as_array().expect("messages");
    let tree: Vec<(&str, u64)> = messages
        .iter()
        .map(|message| (message["eventType"].as_str().unwrap_or_default(), message["depth"].as_u64().unwrap_or(99)))
        .collect();
    assert_eq!(tree, [("chain.first.v1", 0), ("chain.second.v1", 1), ("chain.third.v1", 2)]);
    assert_eq!(messages[1]["causationId"], messages[0]["eventId"]);
    assert_eq!(messages[2]["causationId"], messages[1]["eventId"]);
    for message in messages {
        assert_eq!(message["publications"][0]["state"], "byCommit");
        assert_eq!(message["publications"][0]["at"], message["writtenAt"]);
    }
    assert_eq!(place(&messages[0], "chain.first")["state"], "handled");
    assert_eq!(place(&messages[1], "chain.second")["state"], "handled");
    let end = &messages[2];
    assert_eq!(place(end, "chain.unread")["state"], "waiting");
    let retry = place(end, "chain.retried");
    assert_eq!((&retry["state"], &retry["attempts"]), (&json!("retrying"), &json!(1)));
    assert_eq!(retry["lastError"], "not available");
    assert!(retry["dueAt"].is_string() && retry["firstFailedAt"].is_string(), "{retry}");
    let dead = place(end, "chain.rejected");
    assert_eq!((&dead["state"], &dead["lastError"]), (&json!("dead"), &json!("not possible")));
    assert_eq!(end["deadLetters"].as_array().map(Vec::len), Some(1));

    let output = cli.run(&["trace", &correlation]).await;
    let lines: Vec<&str> =
        output.stdout.lines().filter(|line| line.contains("chain.") && line.contains("tenant acme")).collect();
    assert!(
        lines[0].starts_with("20") && lines[1].starts_with("  └ 20") && lines[2].starts_with("    └ 20"),
        "{lines:#?}"
    );
    for text in
        ["queue chain.unread: waiting", "failed 1 times", "not available", "queue chain.rejected: dead", "not possible"]
    {
        assert!(output.stdout.contains(text), "{text}: {}", output.stdout);
    }
    assert!(!output.stdout.contains("handled at"), "the time of handling is not recorded: {}", output.stdout);
}

#[tokio::test]
async fn operators_actions_on_a_dead_letter_are_part_of_the_story() {
    let mut platform = TestPlatform::new(vec![chain_service()]).await;
    let correlation = run_chain(&mut platform).await;
    let cli = cli_on(&platform).await;
    let owner = platform.database().owner().await;
    owner
        .batch_execute(
            "SELECT onceward.quarantine(ARRAY(SELECT id FROM onceward.dead_letters), 'poison', 'olga', 'it cannot be handled')",
        )
        .await
        .expect("the dead letter is quarantined");
    let story = cli.run(&["trace", &correlation, "--json"]).await.json().remove(0);
    let end = &story["messages"][2];
    assert_eq!(place(end, "chain.rejected")["state"], "quarantined");
    let letter = &end["deadLetters"][0];
    assert_eq!((&letter["status"], &letter["tag"]), (&json!("quarantined"), &json!("poison")));
    assert_eq!(
        (&letter["acts"][0]["actor"], &letter["acts"][0]["why"]),
        (&json!("olga"), &json!("it cannot be handled"))
    );
    assert!(
        cli.run(&["trace", &correlation]).await.stdout.contains("quarantined as poison by olga: it cannot be handled")
    );
}

#[tokio::test]
async fn a_story_starts_with_the_stored_response_and_is_hidden_from_other_tenants() {
    let mut platform = TestPlatform::new(vec![onceward_example_orders::service()]).await;
    let url = platform.serve_http().await;
    let request = http().post(format!("{url}/api/orders")).bearer_auth(platform.token("acme"));
    let order = json!({"sku": "teapot", "quantity": 1});
    let body = HttpResponse::to(request.header("idempotency-key", "k").json(&order)).await.with_status(202);
    let correlation = body["correlationId"].as_str().expect("a correlation id").to_owned();
    let cli = cli_on(&platform).await;

    let story = cli.run(&["trace", &correlation, "--json"]).await.json().remove(0);
    assert_eq!((&story["answers"][0]["status"], &story["answers"][0]["tenant"]), (&json!(202), &json!("acme")));
    assert_eq!(place(&story["messages"][0], "orders.reserve.v1")["state"], "waiting");
    let others: CommandOutput = cli.run(&["trace", &correlation, "--tenant", "globex"]).await;
    assert_eq!(others.code, 1);
    assert!(others.stdout.contains("nothing was found"), "{}", others.stdout);
}

#[tokio::test]
async fn a_story_reports_unrouted_messages_and_when_delayed_ones_are_due() {
    let platform = TestPlatform::new(vec![onceward_example_orders::service()]).await;
    let owner = platform.database().owner().await;
    let publish = "SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.' || $1, 'order.placed.v1',
                       '{\"orderId\": \"00000000-0000-4000-8000-000000000001\", \"sku\": \"cup\", \"quantity\": 1}',
                       p_correlation_id => 'story-17', p_delay => $2::text::interval)";
    owner.execute(publish, &[&"misspelt", &None::<&str>]).await.expect("the message is published");
    owner.execute(publish, &[&"placed", &Some("1 hour")]).await.expect("the message is published");
    let story = cli_on(&platform).await.run(&["trace", "story-17", "--json"]).await.json().remove(0);
    let messages = story["messages"].as_array().expect("messages");
    assert_eq!(messages[0]["publications"][0]["state"], "noPlace");
    assert_eq!(messages[0]["places"], json!([]));
    let delayed = place(&messages[1], "orders.reserve.v1");
    assert_eq!(delayed["state"], "delayed");
    assert!(delayed["dueAt"].is_string(), "{delayed}");
}

#[tokio::test]
async fn on_an_external_bus_a_story_reports_when_a_message_was_relayed_and_when_it_landed() {
    if left_out("rabbitmq") {
        return;
    }
    let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
    let mut platform = TestPlatform::on_bus(vec![onceward_example_orders::service()], Some(&url)).await;
    let cli = cli_on(&platform).await;
    let owner = platform.database().owner().await;
    let publish = "SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.placed', 'order.placed.v1',
                       '{\"orderId\": \"00000000-0000-4000-8000-000000000001\", \"sku\": \"cup\", \"quantity\": 1}',
                       p_correlation_id => 'story-17')";
    owner.execute(publish, &[]).await.expect("the message is published");
    let first = async || cli.run(&["trace", "story-17", "--json"]).await.json().remove(0)["messages"][0].clone();
    assert_eq!(first().await["publications"][0]["state"], "waiting", "no relay runs");

    platform.run_relay();
    let relayed = eventually("the message is relayed", || async {
        let message = first().await;
        (message["publications"][0]["state"] == "byRelay").then_some(message)
    })
    .await;
    assert!(relayed["publications"][0]["at"].is_string(), "{relayed}");
    assert_eq!(place(&relayed, "orders.reserve.v1")["state"], "onTheBus");

    platform.run_consumers();
    let handled = eventually("the message is handled", || async {
        let message = first().await;
        (place(&message, "orders.reserve.v1")["state"] == "handled").then_some(message)
    })
    .await;
    assert!(place(&handled, "orders.reserve.v1")["landedAt"].is_string(), "{handled}");
}
