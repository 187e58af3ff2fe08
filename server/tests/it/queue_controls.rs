//! `queues pause|resume|limit|unlimit|controls` and `pools`: what operators set, what they see of it, and who did it.

use crate::cli_fixture::{CliFixture, QUEUE};
use serde_json::{Value, json};

const WHY: [&str; 2] = ["--why", "the stock service is being repaired"];

async fn audited(cli: &CliFixture, event_type: &str) -> Vec<Value> {
    let listed = cli.run(&["audit", "list", "--json", "--action", event_type]).await;
    listed.json().into_iter().map(|line| line["entry"].clone()).collect()
}

/// Returns the line of the orders' queue.
async fn queue_line(cli: &CliFixture) -> Value {
    let queues = cli.run(&["queues", "--json"]).await.json();
    queues.into_iter().find(|line| line["queue"] == QUEUE).expect("the queue is listed")
}

#[tokio::test]
async fn a_pause_is_listed_with_its_end_and_author_and_can_be_ended() {
    let cli = CliFixture::new().await;
    let paused = cli.run(&["queues", "pause", QUEUE, "--tenant", "acme", "--for", "10m", WHY[0], WHY[1]]).await;
    assert_eq!(paused.code, 0, "{}", paused.stderr);
    assert!(paused.stdout.starts_with("tenant acme in orders.reserve.v1 is paused until "), "{}", paused.stdout);
    let line = queue_line(&cli).await;
    assert_eq!(line["pauses"][0]["tenant"], "acme", "{line}");
    assert_eq!((&line["pauses"][0]["setBy"], &line["pauses"][0]["why"]), (&json!("olga"), &json!(WHY[1])));
    assert!(cli.run(&["queues"]).await.stderr.contains("tenant acme in orders.reserve.v1 is paused until"));

    let resumed = cli.run(&["queues", "resume", QUEUE, "--tenant", "acme", "--json"]).await;
    assert_eq!((resumed.code, &resumed.json()[0]["done"]), (0, &json!(true)));
    let again = cli.run(&["queues", "resume", QUEUE, "--tenant", "acme"]).await;
    assert_eq!((again.code, again.stderr.trim()), (3, "tenant acme in orders.reserve.v1 is not paused"));
    assert_eq!(queue_line(&cli).await["pauses"], json!([]));
    let entry = &audited(&cli, "queue_paused").await[0];
    assert_eq!((&entry["tenantId"], &entry["actor"]["userId"]), (&json!("acme"), &json!("olga")));
    assert_eq!((&entry["objectId"], &entry["payload"]["why"]), (&json!(QUEUE), &json!(WHY[1])));
    assert_eq!(audited(&cli, "queue_resumed").await.len(), 1, "what was not done is not recorded");
}

#[tokio::test]
async fn a_rate_limit_is_listed_and_can_be_removed() {
    let cli = CliFixture::new().await;
    let limited = cli.run(&["queues", "limit", QUEUE, "--rate", "90/m", WHY[0], WHY[1]]).await;
    assert_eq!((limited.code, limited.stdout.trim()), (0, "orders.reserve.v1 handles 90 messages per minute at most"));
    let controls = cli.run(&["queues", "controls", "--json"]).await.json();
    assert_eq!(
        (&controls[0]["perSecond"], &controls[0]["burst"], &controls[0]["tenant"]),
        (&json!(1.5), &json!(2), &Value::Null)
    );
    assert!(cli.run(&["queues", "controls"]).await.stdout.contains("limited to 90 messages per minute"));
    assert_eq!(cli.run(&["queues", "unlimit", QUEUE]).await.code, 0);
    assert_eq!(cli.run(&["queues", "unlimit", QUEUE]).await.code, 3);
    let both = (audited(&cli, "queue_limited").await.len(), audited(&cli, "queue_unlimited").await.len());
    assert_eq!(both, (1, 1));
}

#[tokio::test]
async fn wrong_controls_are_refused_and_change_nothing() {
    let cli = CliFixture::new().await;
    for (args, message) in [
        (&["queues", "pause", "no.such.queue", "--for", "1m", WHY[0], WHY[1]][..], "there is no queue"),
        (&["queues", "pause", QUEUE, "--for", "0s", WHY[0], WHY[1]], "longer than zero"),
        (&["queues", "pause", QUEUE, "--for", "99d", WHY[0], WHY[1]], "30 days at most"),
        (&["queues", "pause", QUEUE, WHY[0], WHY[1]], "--for"),
        (&["queues", "pause", QUEUE, "--for", "1m"], "--why"),
        (&["queues", "limit", QUEUE, "--rate", "fast", WHY[0], WHY[1]], "10/s"),
        (&["breaker", "isolate", "nowhere", WHY[0], WHY[1]], "no service declares the destination \"nowhere\""),
        (&["breaker", "close", "nowhere", WHY[0], WHY[1]], "closed already"),
        (&["pools", "reset", "no-such-pool", WHY[0], WHY[1]], "there is no worker pool"),
        (&["pools", "set", "no-such-pool", "--max", "3", WHY[0], WHY[1]], "there is no worker pool"),
    ] {
        let refused = cli.run(args).await;
        assert_ne!(refused.code, 0, "{args:?}");
        assert!(refused.stderr.contains(message), "{args:?}: {}", refused.stderr);
    }
    assert!(cli.run(&["queues", "controls", "--json"]).await.json().is_empty());
    assert!(cli.run(&["breaker", "list", "--json"]).await.json().is_empty());
    assert!(cli.run(&["pools", "--json"]).await.json().is_empty());
    assert!(cli.run(&["queues", "controls"]).await.stdout.contains("nothing is paused or limited"));
}

#[tokio::test]
async fn a_waiting_message_is_cancelled_once_and_can_be_requeued() {
    let cli = CliFixture::new().await;
    cli.publish("acme", "cup").await;
    let id = cli.text("SELECT id::text FROM onceward.outbox_messages").await;
    let rehearsed = cli.run(&["queues", "cancel", &id, "--dry-run", WHY[0], WHY[1]]).await;
    assert_eq!((rehearsed.code, rehearsed.stdout.contains("would be cancelled")), (0, true), "{}", rehearsed.stdout);
    assert_eq!(cli.count("SELECT count(*) FROM onceward.dead_letters").await, 0, "a dry run changes nothing");

    let cancelled = cli.run(&["queues", "cancel", &id, WHY[0], WHY[1]]).await;
    assert_eq!((cancelled.code, cancelled.stdout.contains("cancelled; it is dead letter")), (0, true));
    let again = cli.run(&["queues", "cancel", &id, WHY[0], WHY[1]]).await;
    assert_eq!((again.code, again.stderr.contains("it is already dead letter")), (3, true), "{}", again.stderr);
    let unknown = "00000000-0000-7000-8000-000000000000";
    assert_eq!(cli.run(&["queues", "cancel", unknown, WHY[0], WHY[1]]).await.code, 3);
    let entries = audited(&cli, "message_cancelled").await;
    assert_eq!(
        (entries.len(), &entries[0]["tenantId"], &entries[0]["payload"]["why"]),
        (1, &json!("acme"), &json!(WHY[1]))
    );

    let letter = cli.text("SELECT id::text FROM onceward.dead_letters WHERE reason = 'cancelled'").await;
    let released = cli.run(&["dlq", "release", &letter, WHY[0], WHY[1]]).await;
    assert_eq!(released.code, 3, "a cancelled message holds no key: {}", released.stderr);
    assert_eq!(cli.run(&["dlq", "requeue", &letter, WHY[0], WHY[1]]).await.code, 0);
    assert_eq!(cli.count("SELECT count(*) FROM onceward.dead_letters WHERE status = 'dead'").await, 0);
}
