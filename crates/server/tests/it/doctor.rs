//! `onceward doctor`: each thing that is broken on purpose is found, with advice that helps.

use crate::{letters::Desk, support::services};
use onceward::{Platform, transport::BusKind};
use onceward_testkit::{TestDb, TestPlatform, eventually, left_out, rabbitmq_url};
use serde_json::Value;
use tokio_postgres::Client;

/// A database of the program's services, and its owner.
async fn patient(bus: BusKind) -> (Desk, TestDb, Client) {
    let platform = Platform::assemble(services()).expect("the services fit");
    let database = TestDb::for_platform_on(&platform, bus).await;
    let owner = database.owner().await;
    (Desk::at(database.url(), database.owner().await), database, owner)
}

/// What one check found.
fn findings_of(report: &Value, check: &str) -> Vec<(String, String)> {
    assert!(report["checks"].as_array().is_some_and(|all| all.iter().any(|one| one == check)), "{check}: {report:#}");
    let findings = report["findings"].as_array().expect("a list").iter().filter(|finding| finding["check"] == check);
    let word = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    findings.map(|finding| (word(finding, "what"), word(finding, "advice"))).collect()
}

async fn examine(desk: &Desk, args: &[&str], variables: &[(&str, &str)]) -> Value {
    let args: Vec<&str> = ["doctor", "--json", "--timeout", "40s"].iter().chain(args).copied().collect();
    let ended = desk.run_with(&args, variables).await;
    let report = ended.json().remove(0);
    let findings = report["findings"].as_array().expect("a list");
    assert_eq!(ended.code, i32::from(!findings.is_empty()), "{report:#}");
    report
}

async fn found(desk: &Desk, check: &str) -> Vec<(String, String)> {
    findings_of(&examine(desk, &[], &[]).await, check)
}

#[tokio::test]
async fn a_fresh_database_has_nothing_but_what_the_test_server_leaves_out_for_speed() {
    let (desk, _database, _owner) = patient(BusKind::Postgres).await;
    let report = examine(&desk, &[], &[]).await;
    for finding in report["findings"].as_array().expect("a list") {
        // Others use the same server, and may use up its connections.
        assert!(finding["check"] == "settings" || finding["check"] == "connections", "{finding:#}");
        assert!(finding["advice"].as_str().is_some_and(|advice| !advice.is_empty()));
    }
    assert!(report["checks"].as_array().is_some_and(|checks| checks.len() >= 18), "{report:#}");
    let words = desk.run(&["doctor"]).await;
    assert!(words.printed.contains(" checks"), "{}", words.printed);
}

#[tokio::test]
async fn a_session_that_pins_a_snapshot_is_named_with_how_to_end_it() {
    let (desk, database, owner) = patient(BusKind::Postgres).await;
    let holder = database.owner().await;
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.expect("begins");
    let pid: i32 = holder.query_one("SELECT pg_backend_pid()", &[]).await.expect("a pid").get(0);
    assert_eq!(found(&desk, "sessions").await, [], "it has not been long");
    let report = examine(&desk, &["--longer-than", "0s"], &[]).await;
    let sessions = findings_of(&report, "sessions");
    let (what, advice) =
        sessions.iter().find(|(what, _)| what.contains(&format!("session {pid} "))).expect("it is found");
    assert!(what.contains("idle in transaction") && what.contains("pins a snapshot"), "{what}");
    let statement = advice.split('`').nth(1).expect("a statement to run");
    owner.batch_execute(statement).await.expect("the advice works");
    eventually("it is ended", || async { holder.is_closed().then_some(()) }).await;
}

#[tokio::test]
async fn missing_and_invalid_indexes_are_found_and_the_advice_puts_them_right() {
    let (desk, _database, owner) = patient(BusKind::Postgres).await;
    owner
        .batch_execute(
            "DROP INDEX onceward.deferred_due; DROP INDEX onceward_web.idempotency_key_expires_at;
             UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'onceward.dead_letters_by_queue'::regclass",
        )
        .await
        .expect("they are gone");
    let indexes = found(&desk, "indexes").await;
    let words: Vec<&str> = indexes.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(indexes.len(), 3, "{words:?}");
    assert!(words[0].contains("onceward.deferred_due is missing"), "{words:?}");
    assert!(words[1].contains("onceward_web.idempotency_key_expires_at is missing"), "{words:?}");
    assert!(words[2].contains("onceward.dead_letters_by_queue is not valid"), "{words:?}");
    for (_, advice) in &indexes {
        owner.batch_execute(advice.split('`').nth(1).expect("a statement to run")).await.expect("the advice works");
    }
    assert_eq!(found(&desk, "indexes").await, []);
    owner.batch_execute("ALTER TABLE onceward.lane_turn DROP CONSTRAINT lane_turn_pkey").await.expect("it is gone");
    assert!(found(&desk, "indexes").await[0].0.contains("lane_turn_pkey"));
}

#[tokio::test]
async fn another_bus_in_the_settings_than_in_the_database_is_found_and_so_is_a_missing_relay() {
    let (desk, _database, _owner) = patient(BusKind::Redis).await;
    let report = examine(&desk, &[], &[]).await;
    let (what, advice) = &findings_of(&report, "bus")[0];
    assert!(what.contains("redis") && what.contains("postgres"), "{what}");
    assert!(advice.contains("BROKER_URL") && advice.contains("onceward migrate"), "{advice}");
    assert!(findings_of(&report, "relays")[0].0.contains("no relay runs"));

    let nowhere = [("BROKER_URL", "redis://:hidden-word@127.0.0.1:1")];
    let report = examine(&desk, &[], &nowhere).await;
    assert_eq!(findings_of(&report, "bus"), []);
    assert!(findings_of(&report, "broker")[0].0.contains("redis does not answer"), "{report:#}");
    assert!(!report.to_string().contains("hidden-word"));
}

#[tokio::test]
async fn a_relay_that_lost_its_bus_is_found() {
    let (desk, _database, owner) = patient(BusKind::Redis).await;
    owner
        .batch_execute("SELECT onceward.note_relay('r-1', 'redis', false, 'connection refused')")
        .await
        .expect("noted");
    let relays = found(&desk, "relays").await;
    assert!(
        relays[0].0.contains("r-1 does not reach redis") && relays[0].0.contains("connection refused"),
        "{relays:?}"
    );
    owner.batch_execute("SELECT onceward.note_relay('r-1', 'redis', true, NULL)").await.expect("noted");
    assert_eq!(found(&desk, "relays").await, []);
}

#[tokio::test]
async fn messages_left_for_a_bus_that_is_not_used_any_more_are_found() {
    let (desk, _database, owner) = patient(BusKind::Redis).await;
    desk.publish("acme", "cup").await;
    assert_eq!(found(&desk, "outbox").await, []);
    owner.batch_execute("UPDATE onceward.log_state SET bus = 'postgres'").await.expect("it is switched");
    let left = found(&desk, "outbox").await;
    assert!(
        left[0].0.contains("1 messages wait for an external bus") && left[0].1.contains("--role relay"),
        "{left:?}"
    );
}

#[tokio::test]
async fn messages_that_nobody_takes_are_found_with_who_is_missing() {
    let (desk, _database, owner) = patient(BusKind::Postgres).await;
    desk.publish("acme", "cup").await;
    assert_eq!(found(&desk, "lanes").await, [], "it has just been published");
    owner.batch_execute("UPDATE onceward.message_log SET created_at = now() - interval '1 hour'").await.expect("aged");
    let lanes = found(&desk, "lanes").await;
    assert!(lanes[0].0.contains("1 lanes of orders.reserve.v1") && lanes[0].1.contains("--role worker"), "{lanes:?}");

    owner
        .batch_execute("BEGIN; SELECT pg_advisory_xact_lock(19012, (SELECT max(id) FROM onceward.lane))")
        .await
        .expect("a worker is in it");
    assert!(found(&desk, "lanes").await[0].1.contains("a worker is in 1 of them"));
}

#[tokio::test]
async fn retention_that_is_stuck_names_the_queue_that_holds_it() {
    let (desk, _database, owner) = patient(BusKind::Postgres).await;
    desk.publish("acme", "cup").await;
    owner
        .batch_execute(
            "SELECT onceward.open_epoch('0 s');
             UPDATE onceward.log_epoch SET opened_at = now() - interval '31 days', closed_at = now() - interval '30 days' WHERE epoch = 1;
             UPDATE onceward.log_epoch SET opened_at = now() - interval '30 days' WHERE epoch = 2",
        )
        .await
        .expect("aged");
    let partitions = found(&desk, "partitions").await;
    let words: Vec<&str> = partitions.iter().map(|(what, _)| what.as_str()).collect();
    assert!(words.iter().any(|what| what.contains("partition 2 is open for 30 days")), "{words:?}");
    assert!(words.iter().any(|what| what.contains("partition 1 has no index")), "{words:?}");
    let stuck = partitions.iter().find(|(what, _)| what.contains("should have been dropped")).expect("it is found");
    assert!(stuck.1.contains("orders.reserve.v1 (1 lanes)"), "{stuck:?}");
}

#[tokio::test]
async fn unapplied_migrations_missing_columns_and_idle_vacuum_are_found() {
    let (desk, _database, owner) = patient(BusKind::Postgres).await;
    owner
        .batch_execute(
            "DELETE FROM onceward_meta.migration WHERE name = '0001_orders';
             INSERT INTO onceward_meta.migration (schema_name, name, checksum) VALUES ('orders', '0099_later', 'x');
             ALTER TABLE orders.customer_order DROP COLUMN status;
             ALTER TABLE onceward.lane_turn SET (autovacuum_enabled = off)",
        )
        .await
        .expect("it is altered");
    let report = examine(&desk, &[], &[]).await;
    let migrations = findings_of(&report, "migrations");
    assert!(migrations[0].0.contains("orders/0001_orders has not been applied"), "{migrations:?}");
    assert!(migrations[1].0.contains("orders/0099_later is applied"), "{migrations:?}");
    assert!(findings_of(&report, "columns")[0].0.contains("orders.customer_order lacks status"));
    assert!(findings_of(&report, "vacuum")[0].0.contains("switched off for onceward.lane_turn"));
}

#[tokio::test]
async fn settings_that_break_promises_are_found_for_the_database_they_are_made_for() {
    let (desk, database, owner) = patient(BusKind::Postgres).await;
    let name: String = owner.query_one("SELECT current_database()::text", &[]).await.expect("a name").get(0);
    let break_it = format!(
        "ALTER DATABASE {name} SET synchronous_commit = off; ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'"
    );
    owner.batch_execute(&break_it).await.expect("it is set");
    let settings = found(&desk, "settings").await;
    for word in ["synchronous_commit is off", "repeatable read by default"] {
        assert!(settings.iter().any(|(what, _)| what.contains(word)), "{word}: {settings:?}");
    }
    drop(database);
}

#[tokio::test]
async fn a_check_that_cannot_look_says_so() {
    let (desk, _database, owner) = patient(BusKind::Postgres).await;
    owner.batch_execute("ALTER TABLE onceward.schedule RENAME TO hidden").await.expect("it is renamed");
    let schedules = found(&desk, "schedules").await;
    assert!(
        schedules[0].0.contains("could not be looked at") && schedules[0].0.contains("onceward.schedule"),
        "{schedules:?}"
    );
}

#[tokio::test]
async fn an_empty_database_and_one_that_does_not_answer_are_findings_too() {
    let empty = TestDb::empty().await;
    let desk = Desk::at(empty.url(), empty.owner().await);
    let report = examine(&desk, &[], &[]).await;
    assert!(findings_of(&report, "migrations")[0].1.contains("onceward migrate"));
    let of_tables = report["checks"].as_array().is_some_and(|checks| checks.iter().any(|check| check == "columns"));
    assert!(!of_tables, "one finding says it all: {report:#}");

    let gone = Desk::at("postgres://nobody@127.0.0.1:1/none".into(), empty.owner().await);
    let report = examine(&gone, &[], &[]).await;
    assert!(findings_of(&report, "database")[0].0.contains("cannot be asked"), "{report:#}");
}

#[tokio::test]
async fn a_broker_that_lacks_something_of_the_topology_is_found() {
    if left_out("rabbitmq") {
        return;
    }
    let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
    let platform = TestPlatform::on_bus(services(), Some(&url)).await;
    let desk = Desk::at(platform.database().url(), platform.database().owner().await);
    let namespace = platform.config().bus.namespace.clone();
    let bus = [("BROKER_URL", url.as_str()), ("ONCEWARD_BUS_NAMESPACE", namespace.as_str())];
    let lacking = async || {
        let report = examine(&desk, &[], &bus).await;
        findings_of(&report, "broker")
            .into_iter()
            .filter(|(what, _)| what.contains("orders.reserve.v1 differs"))
            .count()
    };
    assert!(lacking().await > 0);
    assert_eq!(desk.run_with(&["topology", "declare"], &bus).await.code, 0);
    assert_eq!(lacking().await, 0);
}
