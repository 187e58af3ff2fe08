//! `onceward trace`: a request's story, with what was retried, what died and what still waits.

use crate::{
    letters::{Desk, Ended},
    support::http,
};
use onceward::prelude::*;
use onceward_testkit::{TestPlatform, eventually, left_out, rabbitmq_url};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

const SCHEMAS: &[&str] = &[
    r#"{"$id": "tale.begun.v1", "type": "object"}"#,
    r#"{"$id": "tale.told.v1", "type": "object"}"#,
    r#"{"$id": "tale.ended.v1", "type": "object"}"#,
];

/// Declares an event of the tale, whose topic is its name.
macro_rules! event {
    ($name:ident, $word:literal) => {
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        struct $name {}

        impl Event for $name {
            const TYPE: &'static str = concat!("tale.", $word, ".v1");

            fn topic(&self, tenant: &TenantId) -> String {
                format!("tale.events:tenant.{tenant}.{}", $word)
            }
        }
    };
}

event!(Begun, "begun");
event!(Told, "told");
event!(Finished, "ended");

struct Tell;

impl Handler for Tell {
    type Event = Begun;

    async fn handle(&self, tx: &mut Tx, _: &Received<'_, Begun>) -> Result<(), Failure> {
        outbox::publish(tx, &Told {}).await?;
        Ok(())
    }
}

struct End;

impl Handler for End {
    type Event = Told;

    async fn handle(&self, tx: &mut Tx, _: &Received<'_, Told>) -> Result<(), Failure> {
        outbox::publish(tx, &Finished {}).await?;
        Ok(())
    }
}

struct Applaud;

impl Handler for Applaud {
    type Event = Finished;

    async fn handle(&self, _: &mut Tx, _: &Received<'_, Finished>) -> Result<(), Failure> {
        Err(Failure::retry_after(Duration::from_secs(3_600), "nobody listens"))
    }
}

struct Print;

impl Handler for Print {
    type Event = Finished;

    async fn handle(&self, _: &mut Tx, _: &Received<'_, Finished>) -> Result<(), Failure> {
        Err(Failure::permanent("no paper"))
    }
}

/// Three steps; the last one is read by a queue that retries, by one that gives up, and by one that nobody reads.
fn tale() -> Service {
    let queue = |name: &str| Queue::work(name).shards(1);
    let topology = Topology::new()
        .exchange(Exchange::topic("tale.events"))
        .queue(queue("tale.tell"))
        .queue(queue("tale.end"))
        .queue(queue("tale.applaud"))
        .queue(queue("tale.print"))
        .queue(queue("tale.unread"))
        .bind("tale.events", "tenant.*.begun", "tale.tell")
        .bind("tale.events", "tenant.*.told", "tale.end")
        .bind("tale.events", "tenant.*.ended", "tale.applaud")
        .bind("tale.events", "tenant.*.ended", "tale.print")
        .bind("tale.events", "tenant.*.ended", "tale.unread");
    Service::new("tale")
        .schemas(SCHEMAS)
        .topology(topology)
        .consumer(Consumer::transactional("tell", "tale.tell").on(Tell))
        .consumer(Consumer::transactional("end", "tale.end").on(End))
        .consumer(Consumer::transactional("applaud", "tale.applaud").on(Applaud))
        .consumer(Consumer::transactional("print", "tale.print").on(Print))
}

async fn desk(platform: &TestPlatform) -> Desk {
    Desk::at(platform.database().url(), platform.database().owner().await)
}

fn place<'a>(message: &'a Value, queue: &str) -> &'a Value {
    let places = message["places"].as_array().expect("a list");
    places.iter().find(|place| place["queue"] == queue).unwrap_or_else(|| panic!("{queue} is not in {message:#}"))
}

/// Runs the tale until its end has been tried; gives its correlation id.
async fn told(platform: &mut TestPlatform) -> String {
    let scope = platform.scope("acme");
    let correlation = scope.correlation_id.to_string();
    let mut tx = platform.db().begin(scope).await.expect("a connection");
    outbox::publish(&mut tx, &Begun {}).await.expect("it is published");
    tx.commit().await.expect("it commits");
    platform.run_consumers();
    let owner = platform.database().owner().await;
    eventually("the end was tried", || async {
        let tried = "SELECT (SELECT count(*) FROM onceward.deferred) + (SELECT count(*) FROM onceward.dead_letters)";
        let tried: i64 = owner.query_one(tried, &[]).await.ok()?.get(0);
        (tried == 2).then_some(())
    })
    .await;
    correlation
}

#[tokio::test]
async fn a_story_is_a_tree_with_what_became_of_each_message_in_each_queue() {
    let mut platform = TestPlatform::new(vec![tale()]).await;
    let correlation = told(&mut platform).await;
    let desk = desk(&platform).await;

    let story = desk.run(&["trace", &correlation, "--json"]).await.json().remove(0);
    let messages = story["messages"].as_array().expect("messages");
    let tree: Vec<(&str, u64)> = messages
        .iter()
        .map(|message| (message["eventType"].as_str().unwrap_or_default(), message["depth"].as_u64().unwrap_or(99)))
        .collect();
    assert_eq!(tree, [("tale.begun.v1", 0), ("tale.told.v1", 1), ("tale.ended.v1", 2)]);
    assert_eq!(messages[1]["causationId"], messages[0]["eventId"]);
    assert_eq!(messages[2]["causationId"], messages[1]["eventId"]);
    for message in messages {
        assert_eq!(message["publications"][0]["state"], "byCommit");
        assert_eq!(message["publications"][0]["at"], message["writtenAt"]);
    }
    assert_eq!(place(&messages[0], "tale.tell")["state"], "handled");
    assert_eq!(place(&messages[1], "tale.end")["state"], "handled");
    let end = &messages[2];
    assert_eq!(place(end, "tale.unread")["state"], "waiting");
    let retry = place(end, "tale.applaud");
    assert_eq!((&retry["state"], &retry["attempts"]), (&json!("retrying"), &json!(1)));
    assert_eq!(retry["lastError"], "nobody listens");
    assert!(retry["dueAt"].is_string() && retry["firstFailedAt"].is_string(), "{retry}");
    let dead = place(end, "tale.print");
    assert_eq!((&dead["state"], &dead["lastError"]), (&json!("dead"), &json!("no paper")));
    assert_eq!(end["deadLetters"].as_array().map(Vec::len), Some(1));

    let words = desk.run(&["trace", &correlation]).await;
    let lines: Vec<&str> =
        words.printed.lines().filter(|line| line.contains("tale.") && line.contains("tenant acme")).collect();
    assert!(
        lines[0].starts_with("20") && lines[1].starts_with("  └ 20") && lines[2].starts_with("    └ 20"),
        "{lines:#?}"
    );
    for said in ["queue tale.unread: waiting", "failed 1 times", "nobody listens", "queue tale.print: dead", "no paper"]
    {
        assert!(words.printed.contains(said), "{said}: {}", words.printed);
    }
    assert!(!words.printed.contains("handled at"), "nobody knows when: {}", words.printed);
}

#[tokio::test]
async fn what_people_did_to_a_dead_letter_is_part_of_the_story() {
    let mut platform = TestPlatform::new(vec![tale()]).await;
    let correlation = told(&mut platform).await;
    let desk = desk(&platform).await;
    let owner = platform.database().owner().await;
    owner
        .batch_execute(
            "SELECT onceward.quarantine(ARRAY(SELECT id FROM onceward.dead_letters), 'paper', 'olga', 'none left')",
        )
        .await
        .expect("it is quarantined");
    let story = desk.run(&["trace", &correlation, "--json"]).await.json().remove(0);
    let end = &story["messages"][2];
    assert_eq!(place(end, "tale.print")["state"], "quarantined");
    let letter = &end["deadLetters"][0];
    assert_eq!((&letter["status"], &letter["tag"]), (&json!("quarantined"), &json!("paper")));
    assert_eq!((&letter["acts"][0]["actor"], &letter["acts"][0]["why"]), (&json!("olga"), &json!("none left")));
    assert!(desk.run(&["trace", &correlation]).await.printed.contains("quarantined as paper by olga: none left"));
}

#[tokio::test]
async fn the_stored_answer_of_a_command_begins_its_story_and_other_tenants_see_nothing() {
    let mut platform = TestPlatform::new(vec![onceward_example_orders::service()]).await;
    let url = platform.serve_http().await;
    let request = http().post(format!("{url}/api/orders")).bearer_auth(platform.token("acme"));
    let order = json!({"sku": "teapot", "quantity": 1});
    let response = request.header("idempotency-key", "k").json(&order).send().await.expect("the API answers");
    let body: Value = response.json().await.expect("JSON");
    let correlation = body["correlationId"].as_str().expect("the usual answer names it").to_owned();
    let desk = desk(&platform).await;

    let story = desk.run(&["trace", &correlation, "--json"]).await.json().remove(0);
    assert_eq!((&story["answers"][0]["status"], &story["answers"][0]["tenant"]), (&json!(202), &json!("acme")));
    assert_eq!(place(&story["messages"][0], "orders.reserve.v1")["state"], "waiting");
    let others: Ended = desk.run(&["trace", &correlation, "--tenant", "globex"]).await;
    assert_eq!(others.code, 1);
    assert!(others.printed.contains("nothing was found"), "{}", others.printed);
}

#[tokio::test]
async fn a_message_that_no_queue_takes_says_so_and_a_delayed_one_when_it_is_due() {
    let platform = TestPlatform::new(vec![onceward_example_orders::service()]).await;
    let owner = platform.database().owner().await;
    let publish = "SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.' || $1, 'order.placed.v1',
                       '{\"orderId\": \"00000000-0000-4000-8000-000000000001\", \"sku\": \"cup\", \"quantity\": 1}',
                       p_correlation_id => 'story-17', p_delay => $2::text::interval)";
    owner.execute(publish, &[&"mislaid", &None::<&str>]).await.expect("it is published");
    owner.execute(publish, &[&"placed", &Some("1 hour")]).await.expect("it is published");
    let story = desk(&platform).await.run(&["trace", "story-17", "--json"]).await.json().remove(0);
    let messages = story["messages"].as_array().expect("messages");
    assert_eq!(messages[0]["publications"][0]["state"], "noPlace");
    assert_eq!(messages[0]["places"], json!([]));
    let delayed = place(&messages[1], "orders.reserve.v1");
    assert_eq!(delayed["state"], "delayed");
    assert!(delayed["dueAt"].is_string(), "{delayed}");
}

#[tokio::test]
async fn on_an_external_bus_a_story_tells_when_it_was_handed_over_and_when_it_landed() {
    if left_out("rabbitmq") {
        return;
    }
    let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
    let mut platform = TestPlatform::on_bus(vec![onceward_example_orders::service()], Some(&url)).await;
    let desk = desk(&platform).await;
    let owner = platform.database().owner().await;
    let publish = "SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.placed', 'order.placed.v1',
                       '{\"orderId\": \"00000000-0000-4000-8000-000000000001\", \"sku\": \"cup\", \"quantity\": 1}',
                       p_correlation_id => 'story-17')";
    owner.execute(publish, &[]).await.expect("it is published");
    let first = async || desk.run(&["trace", "story-17", "--json"]).await.json().remove(0)["messages"][0].clone();
    assert_eq!(first().await["publications"][0]["state"], "waiting", "no relay runs");

    platform.run_relay();
    let relayed = eventually("it is handed over", || async {
        let message = first().await;
        (message["publications"][0]["state"] == "byRelay").then_some(message)
    })
    .await;
    assert!(relayed["publications"][0]["at"].is_string(), "{relayed}");
    assert_eq!(place(&relayed, "orders.reserve.v1")["state"], "onTheBus");

    platform.run_consumers();
    let handled = eventually("it is handled", || async {
        let message = first().await;
        (place(&message, "orders.reserve.v1")["state"] == "handled").then_some(message)
    })
    .await;
    assert!(place(&handled, "orders.reserve.v1")["landedAt"].is_string(), "{handled}");
}
