//! `onceward dlq release`: dead letters that hold their key let their followers go on without them.

use crate::cli_fixture::CliFixture;
use onceward::{
    Consumer, Event, Exchange, Failure, Handler, NewMessage, Queue, Received, Scope, Service, TenantId, Topology, Tx,
    outbox,
};
use onceward_testkit::{TestPlatform, eventually};
use serde::{Deserialize, Serialize};
use serde_json::json;

const WHY: [&str; 2] = ["--why", "the account was closed"];
const SCHEMA: &str = r#"{"$id": "account.posted.v1", "type": "object", "required": ["name"]}"#;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Posted {
    name: String,
}

impl Event for Posted {
    const TYPE: &'static str = "account.posted.v1";
    const EXCHANGE: &'static str = "accounts.events";

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.account.posted")
    }
}

/// Refuses messages that are called "bad".
struct PostHandler;

impl Handler for PostHandler {
    type Event = Posted;

    async fn handle(&self, _tx: &mut Tx, received: &Received<'_, Posted>) -> Result<(), Failure> {
        if received.event.name == "bad" { Err(Failure::permanent("it is bad")) } else { Ok(()) }
    }
}

fn accounts() -> Service {
    let topology = Topology::new()
        .exchange(Exchange::topic("accounts.events"))
        .queue(Queue::work("accounts.post"))
        .bind("accounts.events", "tenant.*.account.posted", "accounts.post");
    let consumer = Consumer::transactional("post", "accounts.post").on(PostHandler).dead_letters_hold_their_key();
    Service::new("accounts").schemas(&[SCHEMA]).topology(topology).publishes::<Posted>().consumer(consumer)
}

async fn publish(platform: &TestPlatform, name: &str) {
    let tenant = TenantId::new("acme").expect("a tenant");
    let posted = Posted { name: name.to_owned() };
    let message = NewMessage::from_event(&posted, &tenant).expect("the event is valid").ordered_by("account 7");
    let mut tx = platform.db().begin(Scope::for_tenant(tenant)).await.expect("a transaction");
    outbox::send(&mut tx, message).await.expect("it is published");
    tx.commit().await.expect("the commit succeeds");
}

#[tokio::test]
async fn a_dead_letter_that_holds_its_key_is_released_once_and_its_followers_go_on() {
    let mut platform = TestPlatform::new(vec![accounts()]).await;
    let cli = CliFixture::on_database(platform.database().url(), platform.database().owner().await);
    for name in ["bad", "second", "third"] {
        publish(&platform, name).await;
    }
    platform.run_consumers();
    eventually("both followers wait behind the letter", || async {
        let parked = "SELECT count(*) FROM onceward.deferred WHERE state = 'parked'";
        (cli.count(parked).await == 2).then_some(())
    })
    .await;
    let holding = cli.run(&["dlq", "list", "--holding", "--json"]).await.json();
    assert_eq!(holding.len(), 1);
    let letter = holding[0]["id"].to_string();
    let shown = cli.run(&["dlq", "show", &letter]).await;
    assert_eq!((shown.code, shown.stdout.contains("account.posted.v1")), (0, true), "{}", shown.stdout);

    let rehearsed = cli.run(&["dlq", "release", &letter, "--dry-run", WHY[0], WHY[1]]).await;
    assert_eq!(rehearsed.code, 0, "{}", rehearsed.stderr);
    assert_eq!(cli.count("SELECT count(*) FROM onceward.deferred WHERE state = 'held'").await, 1, "nothing changed");
    let released = cli.run(&["dlq", "release", &letter, "--json", WHY[0], WHY[1]]).await;
    assert_eq!(released.code, 0, "{}", released.stderr);
    assert_eq!(released.json()[0]["id"].to_string(), letter);
    eventually("the followers are handled", || async {
        (cli.count("SELECT count(*) FROM onceward.deferred").await == 0).then_some(())
    })
    .await;
    assert_eq!(cli.count("SELECT count(*) FROM onceward.dead_letters WHERE status = 'dead'").await, 1, "it stays dead");
    assert!(cli.run(&["dlq", "list", "--holding", "--json"]).await.json().is_empty());
    assert_eq!(cli.run(&["dlq", "release", &letter, WHY[0], WHY[1]]).await.code, 3, "it holds nothing any more");
    let audited = "SELECT count(*) FROM audit.entry WHERE event_type = 'dead_letter_released'";
    assert_eq!(cli.count(audited).await, 1);
    let history = cli.run(&["dlq", "history", "--json"]).await.json();
    assert!(history.iter().any(|act| act["why"] == json!(WHY[1])), "{history:?}");
}
