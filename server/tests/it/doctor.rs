//! `onceward doctor`: every deliberately broken thing is found, with useful advice.

use crate::{
    cli_fixture::CliFixture,
    dead_letter_queue::{DEAD_LETTER_QUEUE, DeadLetterQueueFixture},
    support::services,
};
use onceward::{Platform, broker::BusKind};
use onceward_testkit::{TestDb, TestPlatform, eventually, left_out, rabbitmq_url};
use serde_json::Value;
use tokio_postgres::Client;

/// Creates a database of the program's services; returns it with a connection as its owner.
async fn new_database(bus: BusKind) -> (CliFixture, TestDb, Client) {
    let platform = Platform::assemble(services()).expect("the services are valid");
    let database = TestDb::for_platform_on(&platform, bus).await;
    let owner = database.owner().await;
    (CliFixture::on_database(database.url(), database.owner().await), database, owner)
}

/// Returns the findings of one check.
fn findings_of(report: &Value, check: &str) -> Vec<(String, String)> {
    assert!(report["checks"].as_array().is_some_and(|all| all.iter().any(|name| name == check)), "{check}: {report:#}");
    let findings = report["findings"].as_array().expect("a list").iter().filter(|finding| finding["check"] == check);
    let word = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    findings.map(|finding| (word(finding, "what"), word(finding, "advice"))).collect()
}

async fn examine(cli: &CliFixture, args: &[&str], variables: &[(&str, &str)]) -> Value {
    let args: Vec<&str> = ["doctor", "--json", "--timeout", "40s"].iter().chain(args).copied().collect();
    let output = cli.run_with(&args, variables).await;
    let report = output.json().remove(0);
    let findings = report["findings"].as_array().expect("a list");
    assert_eq!(output.code, i32::from(!findings.is_empty()), "{report:#}");
    report
}

async fn findings(cli: &CliFixture, check: &str) -> Vec<(String, String)> {
    findings_of(&examine(cli, &[], &[]).await, check)
}

#[tokio::test]
async fn a_new_database_has_no_findings_except_about_the_settings_of_the_test_server() {
    let (cli, _database, _owner) = new_database(BusKind::Postgres).await;
    let report = examine(&cli, &[], &[]).await;
    for finding in report["findings"].as_array().expect("a list") {
        // Other tests use the same server, and may use up its connections.
        assert!(finding["check"] == "settings" || finding["check"] == "connections", "{finding:#}");
        assert!(finding["advice"].as_str().is_some_and(|advice| !advice.is_empty()));
    }
    assert!(report["checks"].as_array().is_some_and(|checks| checks.len() >= 18), "{report:#}");
    let output = cli.run(&["doctor"]).await;
    assert!(output.stdout.contains(" checks"), "{}", output.stdout);
    for check in report["checks"].as_array().expect("a list") {
        let name = check.as_str().expect("a name");
        let line = output.stdout.lines().find(|line| line.starts_with(&format!("{name}  ")));
        let cells: Vec<&str> = line.unwrap_or_default().split("  ").filter(|cell| !cell.is_empty()).collect();
        assert!(matches!(cells[..], [_, _, about] if about.contains(' ')), "{name}: {}", output.stdout);
    }
}

#[tokio::test]
async fn open_dead_letters_are_counted_by_queue_with_the_age_of_the_oldest() {
    let (cli, _database, owner) = new_database(BusKind::Postgres).await;
    assert_eq!(findings(&cli, "dead letters").await, []);
    let first = cli.insert_dead_letter("acme", "cup").await.to_string();
    cli.insert_dead_letter("bolt", "pot").await;
    owner
        .execute(
            "UPDATE onceward.dead_letters SET dead_at = now() - interval '3 hours' WHERE id = $1",
            &[&first.parse::<i64>().unwrap()],
        )
        .await
        .expect("backdated");
    let letters = findings(&cli, "dead letters").await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].0, "2 dead letters are open in orders.reserve.v1, the oldest for 3 h");
    assert!(letters[0].1.contains("onceward dlq list --queue orders.reserve.v1"), "{letters:?}");
    for id in [first, (cli.count("SELECT max(id) FROM onceward.dead_letters").await).to_string()] {
        let done = cli.run(&["dlq", "quarantine", &id, "--tag", "known", "--why", "dealt with"]).await;
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    assert_eq!(findings(&cli, "dead letters").await, [], "quarantined letters are no finding");
}

#[tokio::test]
async fn a_message_that_fails_for_longer_than_its_policy_allows_is_found() {
    let (cli, _database, owner) = new_database(BusKind::Postgres).await;
    let id = cli.insert_dead_letter("acme", "cup").await.to_string();
    let requeued = cli.run(&["dlq", "requeue", &id, "--delay", "1h", "--why", "to get a deferred message"]).await;
    assert_eq!(requeued.code, 0, "{}", requeued.stderr);
    assert_eq!(findings(&cli, "stuck messages").await, []);
    let long =
        "UPDATE onceward.deferred SET state = 'retry', attempts = 2, first_failed_at = now() - interval '3 days'";
    owner.batch_execute(long).await.expect("backdated");
    let stuck = findings(&cli, "stuck messages").await;
    assert_eq!(stuck.len(), 1, "{stuck:?}");
    assert!(stuck[0].0.contains("orders.reserve.v1 have been failing for up to 3 days (2 attempts)"), "{stuck:?}");
    let alone = "UPDATE onceward.deferred SET state = 'parked', due_at = NULL, ordering_key = 'cup', created_at = now() - interval '1 h'";
    owner.batch_execute(alone).await.expect("the message is parked");
    let stuck = findings(&cli, "stuck messages").await;
    assert!(stuck.len() == 1 && stuck[0].0.contains("wait behind a message that no longer exists"), "{stuck:?}");
}

#[tokio::test]
async fn a_session_that_pins_a_snapshot_is_named_with_how_to_end_it() {
    let (cli, database, owner) = new_database(BusKind::Postgres).await;
    let holder = database.owner().await;
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.expect("the transaction starts");
    let pid: i32 = holder.query_one("SELECT pg_backend_pid()", &[]).await.expect("a pid").get(0);
    assert_eq!(findings(&cli, "sessions").await, [], "the session has just started");
    let report = examine(&cli, &["--longer-than", "0s"], &[]).await;
    let sessions = findings_of(&report, "sessions");
    let (what, advice) =
        sessions.iter().find(|(what, _)| what.contains(&format!("session {pid} "))).expect("a finding");
    assert!(what.contains("idle in transaction") && what.contains("pins a snapshot"), "{what}");
    let statement = advice.split('`').nth(1).expect("a statement to run");
    owner.batch_execute(statement).await.expect("the advice works");
    eventually("it is ended", || async { holder.is_closed().then_some(()) }).await;
}

#[tokio::test]
async fn missing_and_invalid_indexes_are_found_and_the_advice_fixes_them() {
    let (cli, _database, owner) = new_database(BusKind::Postgres).await;
    owner
        .batch_execute(
            "DROP INDEX onceward.deferred_due; DROP INDEX onceward_web.idempotency_key_expires_at;
             UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'onceward.dead_letters_by_queue'::regclass",
        )
        .await
        .expect("the indexes are changed");
    let indexes = findings(&cli, "indexes").await;
    let words: Vec<&str> = indexes.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(indexes.len(), 3, "{words:?}");
    assert!(words[0].contains("onceward.deferred_due is missing"), "{words:?}");
    assert!(words[1].contains("onceward_web.idempotency_key_expires_at is missing"), "{words:?}");
    assert!(words[2].contains("onceward.dead_letters_by_queue is not valid"), "{words:?}");
    for (_, advice) in &indexes {
        owner.batch_execute(advice.split('`').nth(1).expect("a statement to run")).await.expect("the advice works");
    }
    assert_eq!(findings(&cli, "indexes").await, []);
    owner.batch_execute("ALTER TABLE onceward.lane_turn DROP CONSTRAINT lane_turn_pkey").await.expect("dropped");
    assert!(findings(&cli, "indexes").await[0].0.contains("lane_turn_pkey"));
}

#[tokio::test]
async fn a_bus_that_differs_from_the_databases_and_a_missing_relay_are_found() {
    let (cli, _database, _owner) = new_database(BusKind::Redis).await;
    let report = examine(&cli, &[], &[]).await;
    let (what, advice) = &findings_of(&report, "bus")[0];
    assert!(what.contains("redis") && what.contains("postgres"), "{what}");
    assert!(advice.contains("BROKER_URL") && advice.contains("onceward migrate"), "{advice}");
    assert!(findings_of(&report, "relays")[0].0.contains("no relay is running"));

    let nowhere = [("BROKER_URL", "redis://:hidden-word@127.0.0.1:1")];
    let report = examine(&cli, &[], &nowhere).await;
    assert_eq!(findings_of(&report, "bus"), []);
    assert!(findings_of(&report, "broker")[0].0.contains("redis does not respond"), "{report:#}");
    assert!(!report.to_string().contains("hidden-word"));
}

#[tokio::test]
async fn a_relay_that_lost_its_bus_is_found() {
    let (cli, _database, owner) = new_database(BusKind::Redis).await;
    owner
        .batch_execute("SELECT onceward.note_relay('r-1', 'redis', false, 'connection refused')")
        .await
        .expect("the relay is recorded");
    let relays = findings(&cli, "relays").await;
    assert!(
        relays[0].0.contains("r-1 has not reached redis") && relays[0].0.contains("connection refused"),
        "{relays:?}"
    );
    owner.batch_execute("SELECT onceward.note_relay('r-1', 'redis', true, NULL)").await.expect("the relay is recorded");
    assert_eq!(findings(&cli, "relays").await, []);
}

#[tokio::test]
async fn messages_for_a_bus_that_is_no_longer_used_are_found() {
    let (cli, _database, owner) = new_database(BusKind::Redis).await;
    cli.publish("acme", "cup").await;
    assert_eq!(findings(&cli, "outbox").await, []);
    owner.batch_execute("UPDATE onceward.log_state SET bus = 'postgres'").await.expect("the bus is switched");
    let outbox = findings(&cli, "outbox").await;
    assert!(
        outbox[0].0.contains("1 messages wait for an external bus") && outbox[0].1.contains("--role relay"),
        "{outbox:?}"
    );
}

#[tokio::test]
async fn messages_without_a_worker_are_found_with_the_missing_role() {
    let (cli, _database, owner) = new_database(BusKind::Postgres).await;
    cli.publish("acme", "cup").await;
    assert_eq!(findings(&cli, "lanes").await, [], "the message has just been published");
    owner
        .batch_execute("UPDATE onceward.message_log SET created_at = now() - interval '1 hour'")
        .await
        .expect("backdated");
    let lanes = findings(&cli, "lanes").await;
    assert!(lanes[0].0.contains("1 lanes of orders.reserve.v1") && lanes[0].1.contains("--role worker"), "{lanes:?}");

    owner
        .batch_execute("BEGIN; SELECT pg_advisory_xact_lock(19012, (SELECT max(id) FROM onceward.lane))")
        .await
        .expect("the lane is locked");
    assert!(findings(&cli, "lanes").await[0].1.contains("a worker holds 1 of them"));
}

#[tokio::test]
async fn blocked_retention_names_the_queue_that_blocks_it() {
    let (cli, _database, owner) = new_database(BusKind::Postgres).await;
    cli.publish("acme", "cup").await;
    owner
        .batch_execute(
            "SELECT onceward.open_epoch('0 s');
             UPDATE onceward.log_epoch SET opened_at = now() - interval '31 days', closed_at = now() - interval '30 days' WHERE epoch = 1;
             UPDATE onceward.log_epoch SET opened_at = now() - interval '30 days' WHERE epoch = 2",
        )
        .await
        .expect("backdated");
    let partitions = findings(&cli, "partitions").await;
    let words: Vec<&str> = partitions.iter().map(|(what, _)| what.as_str()).collect();
    assert!(words.iter().any(|what| what.contains("partition 2 has been open for 30 days")), "{words:?}");
    assert!(words.iter().any(|what| what.contains("partition 1 has no index")), "{words:?}");
    let stuck = partitions.iter().find(|(what, _)| what.contains("should have been dropped")).expect("a finding");
    assert!(stuck.1.contains("orders.reserve.v1 (1 lanes)"), "{stuck:?}");
}

#[tokio::test]
async fn unapplied_migrations_missing_columns_and_idle_vacuum_are_found() {
    let (cli, _database, owner) = new_database(BusKind::Postgres).await;
    owner
        .batch_execute(
            "DELETE FROM onceward_meta.migration WHERE name = '0001_orders';
             INSERT INTO onceward_meta.migration (schema_name, name, checksum) VALUES ('orders', '0099_later', 'x');
             ALTER TABLE orders.customer_order DROP COLUMN status;
             ALTER TABLE onceward.lane_turn SET (autovacuum_enabled = off)",
        )
        .await
        .expect("the database is changed");
    let report = examine(&cli, &[], &[]).await;
    let migrations = findings_of(&report, "migrations");
    assert!(migrations[0].0.contains("orders/0001_orders has not been applied"), "{migrations:?}");
    assert!(migrations[1].0.contains("orders/0099_later is applied"), "{migrations:?}");
    assert!(findings_of(&report, "columns")[0].0.contains("orders.customer_order lacks status"));
    assert!(findings_of(&report, "vacuum")[0].0.contains("turned off for onceward.lane_turn"));
}

#[tokio::test]
async fn unsafe_settings_of_this_database_are_found() {
    let (cli, database, owner) = new_database(BusKind::Postgres).await;
    let name: String = owner.query_one("SELECT current_database()::text", &[]).await.expect("a name").get(0);
    let break_it = format!(
        "ALTER DATABASE {name} SET synchronous_commit = off; ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'"
    );
    owner.batch_execute(&break_it).await.expect("the settings are changed");
    let settings = findings(&cli, "settings").await;
    for word in ["synchronous_commit is off", "isolation level is repeatable read"] {
        assert!(settings.iter().any(|(what, _)| what.contains(word)), "{word}: {settings:?}");
    }
    drop(database);
}

#[tokio::test]
async fn a_check_that_fails_reports_it() {
    let (cli, _database, owner) = new_database(BusKind::Postgres).await;
    owner.batch_execute("ALTER TABLE onceward.schedule RENAME TO hidden").await.expect("the table is renamed");
    let schedules = findings(&cli, "schedules").await;
    assert!(schedules[0].0.contains("could not run") && schedules[0].0.contains("onceward.schedule"), "{schedules:?}");
}

#[tokio::test]
async fn an_empty_database_and_an_unreachable_one_are_findings() {
    let empty = TestDb::empty().await;
    let cli = CliFixture::on_database(empty.url(), empty.owner().await);
    let report = examine(&cli, &[], &[]).await;
    assert!(findings_of(&report, "migrations")[0].1.contains("onceward migrate"));
    let of_tables = report["checks"].as_array().is_some_and(|checks| checks.iter().any(|check| check == "columns"));
    assert!(!of_tables, "one finding is enough: {report:#}");

    let unreachable = CliFixture::on_database("postgres://nobody@127.0.0.1:1/none".into(), empty.owner().await);
    let report = examine(&unreachable, &[], &[]).await;
    assert!(findings_of(&report, "database")[0].0.contains("cannot be reached"), "{report:#}");
}

#[tokio::test]
async fn a_broker_without_the_declared_topology_is_found() {
    if left_out("rabbitmq") {
        return;
    }
    let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
    let platform = TestPlatform::on_bus(services(), Some(&url)).await;
    let cli = CliFixture::on_database(platform.database().url(), platform.database().owner().await);
    let namespace = platform.config().bus.namespace.clone();
    let bus = [("BROKER_URL", url.as_str()), ("ONCEWARD_BUS_NAMESPACE", namespace.as_str())];
    let missing = async || {
        let report = examine(&cli, &[], &bus).await;
        findings_of(&report, "broker")
            .into_iter()
            .filter(|(what, _)| what.contains("orders.reserve.v1 differs"))
            .count()
    };
    assert!(missing().await > 0);
    assert_eq!(cli.run_with(&["topology", "declare"], &bus).await.code, 0);
    assert_eq!(missing().await, 0);
}

#[tokio::test]
async fn messages_of_unknown_types_are_counted_and_named_with_what_will_happen_to_them() {
    let (cli, _database, owner) = new_database(BusKind::Postgres).await;
    owner
        .batch_execute(
            r#"INSERT INTO onceward.deferred (lane_id, queue_id, seq, state, due_at, blocks, tenant_id, created_at, message)
               SELECT onceward.lane_of(q.id, 'acme', 0::smallint, 0::smallint), q.id, 1, 'unknown', now() + interval '30 s', true, 'acme',
                      now() - interval '2 hours', '{"event_type": "order.placd", "version": 1}'
               FROM onceward.queue q WHERE q.name = 'orders.reserve.v1'"#,
        )
        .await
        .expect("a message waits");
    let (what, advice) = findings(&cli, "unknown messages").await.remove(0);
    assert!(what.contains("order.placd.v1 in orders.reserve.v1: 1 messages have waited for up to 2 h"), "{what}");
    assert!(advice.contains("after 24 h they become dead letters (unknown_type)"), "{advice}");
    let queues = cli.run(&["queues", "--json"]).await.json();
    let queue = queues.iter().find(|queue| queue["queue"] == "orders.reserve.v1").expect("every queue is listed");
    assert_eq!((&queue["unknown"], &queue["unknownTypes"]), (&1.into(), &vec!["order.placd.v1"].into()));
    assert!(queue["unknownOldestSeconds"].as_f64().is_some_and(|age| age >= 7_200.0), "{queue}");
}

#[tokio::test]
async fn a_failing_schedule_is_named_with_its_error() {
    let (cli, _database, owner) = new_database(BusKind::Postgres).await;
    let platform = Platform::assemble(services()).expect("the services are valid");
    let name = platform.schedules()[0].name().to_owned();
    owner
        .execute("SELECT onceward.declare_schedule($1, '{}', now() + interval '1 hour')", &[&name])
        .await
        .expect("the schedule is declared");
    assert_eq!(findings(&cli, "schedules").await, []);
    owner.execute("SELECT onceward.schedule_failed($1, 'no such exchange')", &[&name]).await.expect("recorded");
    let (what, _) = findings(&cli, "schedules").await.remove(0);
    assert!(what.contains(&name) && what.contains("no such exchange"), "{what}");
}

#[tokio::test]
async fn unrouted_messages_are_found_and_listed() {
    let (cli, _database, owner) = new_database(BusKind::Postgres).await;
    assert_eq!(findings(&cli, "unrouted").await, []);
    // An event without subscribers is not a problem.
    let event = "SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.settled', 'order.settled.v1', '{}')";
    owner.batch_execute(event).await.expect("the message is published");
    assert_eq!(findings(&cli, "unrouted").await, []);
    let enqueue = "SELECT onceward.enqueue('acme', 'ls.events:tenant.acme.nobody.listens', 'nobody.listens.v1', '{}')";
    for _ in 0..2 {
        owner.batch_execute(enqueue).await.expect("the message is published");
    }
    // This holds however many such events follow.
    let events = "SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.settled', 'order.settled.v1', '{}')
                 FROM generate_series(1, 1001)";
    owner.batch_execute(events).await.expect("the messages are published");
    let unrouted = findings(&cli, "unrouted").await;
    assert!(unrouted[0].0.contains("2 published messages") && unrouted[0].1.contains("outbox status"), "{unrouted:?}");
    let status = cli.run(&["outbox", "status", "--json"]).await.json().remove(0);
    let listed = status["unrouted"].as_array().expect("a list");
    let one = listed.iter().find(|one| one["exchange"] == "ls.events").expect("the type is listed");
    assert_eq!(
        (&one["exchange"], &one["eventType"], &one["messages"]),
        (&"ls.events".into(), &"nobody.listens.v1".into(), &2.into())
    );
    assert_eq!(status["unroutedIsMore"], false);
    let unsubscribed = &status["unsubscribed"][0];
    assert_eq!((&unsubscribed["eventType"], &unsubscribed["messages"]), (&"order.settled.v1".into(), &1000.into()));
    assert_eq!(status["unsubscribedIsMore"], true);
    let output = cli.run(&["outbox", "status"]).await.stdout;
    assert!(output.contains("2 nobody.listens.v1, for example ls.events:tenant.acme.nobody.listens"), "{output}");
}

#[tokio::test]
async fn a_dead_letter_queue_above_its_limit_is_found() {
    let Some(queue) = DeadLetterQueueFixture::new().await else { return };
    queue.publish_dead_orders(&["acme"; 3]).await;
    let [url, namespace] = queue.variables();
    let backlog = async |limit| {
        let variables = [url, namespace, ("ONCEWARD_BUS_DEAD_LETTERS_MAX", limit)];
        findings_of(&examine(&queue.cli, &[], &variables).await, "backlog")
    };
    assert_eq!(backlog("3").await, [], "the limit is not exceeded");
    let [(what, advice)] = &backlog("2").await[..] else { panic!("one finding") };
    let expected = format!(
        "the dead-letter queue {DEAD_LETTER_QUEUE} on redis holds 3 messages, more than bus.dead_letters_max (2)"
    );
    assert_eq!(*what, expected);
    assert!(advice.contains("--role scheduler") && advice.contains("onceward dlq collect"), "{advice}");
    assert_eq!(queue.run(&["dlq", "collect"]).await.code, 0, "the advice works");
    assert_eq!(backlog("2").await, []);
}
