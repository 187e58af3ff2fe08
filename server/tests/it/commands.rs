//! The short commands: their output and exit codes.

use crate::support::{SECRET, Scratch, UpServer, get, json_lines_of, migrated_database, run, stdout_of};
use serde_json::json;
use std::{fs, path::Path};

const COMMANDS: &[&[&str]] = &[
    &[],
    &["up"],
    &["serve"],
    &["migrate"],
    &["database-url"],
    &["topology"],
    &["topology", "print"],
    &["topology", "declare"],
    &["topology", "check"],
    &["token"],
    &["token", "issue"],
    &["tenant"],
    &["tenant", "add"],
    &["tenant", "list"],
    &["queues"],
    &["dlq"],
    &["dlq", "list"],
    &["dlq", "show"],
    &["dlq", "requeue"],
    &["dlq", "quarantine"],
    &["dlq", "export"],
    &["dlq", "collect"],
    &["dlq", "history"],
    &["outbox"],
    &["outbox", "status"],
    &["outbox", "retry"],
    &["trace"],
    &["doctor"],
    &["bench"],
    &["webhooks"],
    &["webhooks", "listen"],
    &["webhooks", "types"],
];

#[tokio::test]
async fn every_command_has_help() {
    for command in COMMANDS {
        let args: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let help = stdout_of(&args, &[]).await;
        assert!(help.contains("Usage: onceward"), "{args:?}: {help}");
    }
}

#[tokio::test]
async fn an_unknown_command_exits_with_2() {
    assert_eq!(run(&["dance"], &[]).await.status.code(), Some(2));
}

/// `UPDATE_SNAPSHOTS=1` rewrites the file, and a person reviews the difference.
#[tokio::test]
async fn the_topology_is_the_one_in_the_snapshot() {
    let printed = stdout_of(&["topology", "print", "--json"], &[]).await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("topology.snapshot.json");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &printed).expect("the snapshot can be written");
    }
    let snapshot = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        printed == snapshot,
        "the topology changed; if that is intended, set UPDATE_SNAPSHOTS=1 and run this test again. It is now:\n{printed}"
    );
}

#[tokio::test]
async fn topology_print_names_every_queue_for_people() {
    let printed = stdout_of(&["topology", "print"], &[]).await;
    assert!(printed.lines().any(|line| line.starts_with("queue") && line.contains("orders.reserve.v1")), "{printed}");
}

#[tokio::test]
async fn migrate_applies_everything_once() {
    let database = onceward_testkit::TestDb::empty().await;
    let (url, args) = (database.url(), ["migrate", "--json"]);
    let first = json_lines_of(&args, &[("DATABASE_URL", &url)]).await;
    assert!(first[0]["applied"].as_array().is_some_and(|steps| steps.len() > 3), "{first:?}");
    assert_eq!(json_lines_of(&args, &[("DATABASE_URL", &url)]).await, [json!({"applied": []})]);
    let words = stdout_of(&["migrate"], &[("DATABASE_URL", &url)]).await;
    assert!(words.contains("up to date"), "{words}");
}

#[tokio::test]
async fn tenants_are_added_once_and_listed() {
    let database = migrated_database().await;
    let url = database.url();
    let variables = [("DATABASE_URL", url.as_str())];
    assert_eq!(stdout_of(&["tenant", "add", "acme"], &variables).await, "added acme\n");
    assert_eq!(stdout_of(&["tenant", "add", "acme"], &variables).await, "acme already exists\n");
    assert_eq!(json_lines_of(&["tenant", "list", "--json"], &variables).await, [json!({"id": "acme", "active": true})]);
    assert_eq!(stdout_of(&["tenant", "list"], &variables).await, "tenant  state\nacme    active\n");
    assert_eq!(run(&["tenant", "add", "a.b"], &variables).await.status.code(), Some(2));
}

#[tokio::test]
async fn queues_reports_how_many_messages_wait() {
    let database = migrated_database().await;
    let owner = database.owner().await;
    let payload = json!({"orderId": uuid::Uuid::nil(), "sku": "teapot", "quantity": 1});
    let statement = "SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.placed', 'order.placed.v1', $1)";
    owner.execute(statement, &[&payload]).await.unwrap();
    let url = database.url();
    let queues = json_lines_of(&["queues", "--json"], &[("DATABASE_URL", &url)]).await;
    let queue = queues.iter().find(|queue| queue["queue"] == "orders.reserve.v1").expect("every queue is listed");
    assert_eq!((&queue["waiting"], &queue["putAside"], &queue["dead"]), (&json!(1), &json!(0), &json!(0)));
    assert_eq!((&queue["putAsideIsMore"], &queue["deadIsMore"]), (&json!(false), &json!(false)));
    assert!(queue["oldestSeconds"].as_f64().is_some_and(|age| age > 0.0));
    let table = stdout_of(&["queues"], &[("DATABASE_URL", &url)]).await;
    assert_eq!(table.lines().count(), queues.len() + 1);
}

#[tokio::test]
async fn an_issued_token_is_accepted_by_a_running_up() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    let data = scratch.join("data");
    let issue = ["token", "issue", "--tenant", "acme", "--json", "--data", data.to_str().unwrap()];
    let issued = json_lines_of(&issue, &[]).await.remove(0);
    assert_eq!(issued["tenant"], "acme");
    for role in ["orders:read", "orders:write", "loans:write"] {
        assert!(issued["roles"].as_array().is_some_and(|roles| roles.iter().any(|held| held == role)), "{issued}");
    }
    let demo_order = up.place_order("k").await;
    let token = issued["token"].as_str().unwrap();
    let (status, _) = get(&format!("{}{demo_order}", up.url), Some(token)).await;
    assert_eq!(status, 404, "the token is valid, and the order belongs to another tenant");
    up.token = token.to_owned();
    up.place_order("k").await;
    assert!(up.process.stop_with("INT").await.success());
}

#[tokio::test]
async fn issuing_a_token_without_a_secret_fails_and_names_where_to_get_one() {
    let scratch = Scratch::new();
    let data = scratch.join("nothing-here");
    let args = ["token", "issue", "--tenant", "acme", "--data", data.to_str().unwrap()];
    let refused = run(&args, &[]).await;
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(stderr.contains("ONCEWARD_AUTH_SECRET") && stderr.contains("onceward up"), "{stderr}");
    let token = stdout_of(&args, &[("ONCEWARD_AUTH_SECRET", SECRET)]).await;
    assert_eq!(token.trim().split('.').count(), 3);
}
