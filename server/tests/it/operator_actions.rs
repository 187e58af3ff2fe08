//! Operators' actions are in the audit trail, in the chain of the tenant concerned or in the platform's own.

use crate::{
    cli_fixture::{CliFixture, QUEUE},
    dead_letter_queue::{DEAD_LETTER_QUEUE, DeadLetterQueueFixture},
    support::{SECRET, Scratch, UpServer, json_lines_of, services},
};
use onceward::{Platform, broker::BusKind};
use onceward_testkit::{TestDb, TestPlatform, left_out, rabbitmq_url};
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns the entries of this type, the latest first.
async fn entries(cli: &CliFixture, event_type: &str) -> Vec<Value> {
    let listed = cli.run(&["audit", "list", "--json", "--action", event_type]).await;
    listed.json().into_iter().map(|line| line["entry"].clone()).collect()
}

#[tokio::test]
async fn actions_on_dead_letters_are_entries_of_their_tenants_chain() {
    let cli = CliFixture::new().await;
    let [cup, pot, pan] = [
        cli.insert_dead_letter("acme", "cup").await,
        cli.insert_dead_letter("bolt", "pot").await,
        cli.insert_dead_letter_in(QUEUE, "acme", "pan", "x").await,
    ];
    let why = ["--why", "the stock service is back"];
    let args = ["dlq", "requeue", &cup.to_string(), &pot.to_string(), why[0], why[1]];
    assert_eq!(cli.run(&args).await.code, 0);
    let quarantined = cli.run(&["dlq", "quarantine", &pan.to_string(), "--tag", "poison", why[0], why[1]]).await;
    assert_eq!(quarantined.code, 0, "{}", quarantined.stderr);

    let requeued = entries(&cli, "dead_letter_requeued").await;
    let tenants: Vec<&str> = requeued.iter().map(|entry| entry["tenantId"].as_str().unwrap()).collect();
    assert_eq!(tenants, ["acme", "bolt"]);
    let entry = &requeued[0];
    assert_eq!((&entry["actor"]["userId"], &entry["objectId"]), (&json!("olga"), &json!(cup.to_string())));
    assert_eq!((&entry["payload"]["why"], &entry["payload"]["queue"]), (&json!(why[1]), &json!(QUEUE)));
    assert!(entry["payload"]["host"].as_str().is_some_and(|host| !host.is_empty()), "{entry}");
    assert_eq!(entries(&cli, "dead_letter_quarantined").await.len(), 1);
    assert_eq!(cli.run(&["audit", "verify"]).await.code, 0);

    let again = cli.run(&["dlq", "requeue", &cup.to_string(), why[0], why[1]]).await;
    assert_eq!(again.code, 3, "{}", again.stderr);
    let dry = cli.run(&["dlq", "quarantine", "--all", "--tag", "x", "--dry-run", why[0], why[1]]).await;
    assert_eq!(dry.code, 3, "{}", dry.stderr);
    assert_eq!(entries(&cli, "dead_letter_requeued").await.len(), 2, "a refused command is not recorded");
}

#[tokio::test]
async fn collecting_dead_letters_from_the_bus_adds_entries_to_their_tenants_chain() {
    let Some(queue) = DeadLetterQueueFixture::new().await else { return };
    let cli = &queue.cli;
    queue.publish_dead_orders(&["acme", "bolt"]).await;
    let dry_run = queue.run(&["dlq", "collect", "--dry-run"]).await;
    assert_eq!(dry_run.code, 0, "{}", dry_run.stderr);
    assert_eq!(entries(cli, "dead_letter_collected").await.len(), 0, "a dry run is not recorded");

    let collected = queue.run(&["dlq", "collect", "--why", "the bus gave up", "--json"]).await;
    assert_eq!(collected.code, 0, "{}", collected.stderr);
    let report =
        collected.json().into_iter().find(|line| line["queue"] == DEAD_LETTER_QUEUE).expect("a line for this queue");
    assert_eq!(report["collected"], 2, "{report}");
    let recorded = entries(cli, "dead_letter_collected").await;
    assert_eq!(recorded.len(), 2, "{recorded:#?}");
    for entry in &recorded {
        let tenant = entry["tenantId"].as_str().expect("a tenant");
        let of_tenant = format!("SELECT id FROM onceward.dead_letters WHERE tenant_id = '{tenant}'");
        assert_eq!(entry["objectId"], cli.count(&of_tenant).await.to_string(), "{entry:#}");
        assert_eq!((&entry["actor"]["userId"], &entry["payload"]["why"]), (&json!("olga"), &json!("the bus gave up")));
        assert_eq!(
            (&entry["payload"]["queue"], &entry["payload"]["foundIn"]),
            (&json!(QUEUE), &json!(DEAD_LETTER_QUEUE))
        );
    }
    assert_eq!(queue.run(&["dlq", "collect"]).await.code, 3);
    assert_eq!(entries(cli, "dead_letter_collected").await.len(), 2, "nothing was collected the second time");
    assert_eq!(cli.run(&["audit", "verify"]).await.code, 0);
}

#[tokio::test]
async fn retrying_refused_messages_is_an_entry_of_the_platforms_chain() {
    let platform = Platform::assemble(services()).expect("the services are valid");
    let database = TestDb::for_platform_on(&platform, BusKind::Redis).await;
    let owner = database.owner().await;
    let cli = CliFixture::with_database(database).await;
    let [cup, pot] = [Uuid::now_v7(), Uuid::now_v7()];
    let refused = "INSERT INTO onceward.deferred
            (lane_id, queue_id, seq, state, due_at, blocks, attempts, tenant_id, created_at, message)
        SELECT onceward.lane_of(q.id, 'acme', 0::smallint, 0::smallint), q.id, 1, 'retry', now() + interval '1 hour', false, 1,
               'acme', now(), jsonb_build_object('id', $1::uuid)
        FROM onceward.queue q WHERE q.name = '@outbox'";
    for id in [cup, pot] {
        assert_eq!(owner.execute(refused, &[&id]).await.expect("a refused message"), 1);
    }
    let why = ["--why", "the exchange is there now"];
    let one = cli.run(&["outbox", "retry", "--id", &cup.to_string(), why[0], why[1]]).await;
    assert_eq!((one.code, one.stdout.as_str()), (0, "1 retried now\n"), "{}", one.stderr);
    let recorded = entries(&cli, "outbox_retried").await;
    assert_eq!(recorded.len(), 1, "{recorded:#?}");
    let entry = &recorded[0];
    assert_eq!((&entry["tenantId"], &entry["actor"]["userId"]), (&json!("platform"), &json!("olga")));
    let payload = &entry["payload"];
    assert_eq!((&payload["offered"], &payload["eventId"], &payload["why"]), (&json!(1), &json!(cup), &json!(why[1])));

    assert_eq!(cli.run(&["outbox", "retry"]).await.code, 0);
    assert_eq!(entries(&cli, "outbox_retried").await[0]["payload"]["offered"], 1, "the other message");
    assert_eq!(cli.run(&["outbox", "retry"]).await.code, 3);
    assert_eq!(entries(&cli, "outbox_retried").await.len(), 2, "nothing waits, so nothing is recorded");
    assert_eq!(cli.run(&["audit", "verify"]).await.code, 0);
}

#[tokio::test]
async fn adding_tenants_issuing_tokens_and_declaring_topology_are_recorded_with_the_actor() {
    let cli = CliFixture::new().await;
    let fresh = cli.run(&["audit", "verify"]).await;
    assert_eq!(fresh.code, 0, "nothing was recorded yet: {}", fresh.stderr);
    assert!(fresh.stderr.contains("nothing has been recorded"), "{}", fresh.stderr);

    let added = cli.run(&["tenant", "add", "acme", "--why", "a new customer", "--as", "ivan"]).await;
    assert_eq!(added.code, 0, "{}", added.stderr);
    assert_eq!(cli.run(&["tenant", "add", "acme"]).await.code, 0);
    let tenants = entries(&cli, "tenant_added").await;
    assert_eq!(tenants.len(), 1, "adding an existing tenant is not recorded: {tenants:#?}");
    assert_eq!((&tenants[0]["tenantId"], &tenants[0]["actor"]["userId"]), (&json!("acme"), &json!("ivan")));
    assert_eq!(tenants[0]["payload"]["why"], "a new customer");

    let variables = [("ONCEWARD_AUTH_SECRET", SECRET)];
    let issued = cli.run_with(&["token", "issue", "--tenant", "acme", "--role", "orders:write"], &variables).await;
    assert_eq!(issued.code, 0, "{}", issued.stderr);
    let tokens = entries(&cli, "token_issued").await;
    assert_eq!(tokens[0]["payload"]["roles"], json!(["orders:write"]));
    assert!(!tokens[0].to_string().contains(issued.stdout.trim()), "the token itself is not recorded");

    cli.count("WITH gone AS (DELETE FROM onceward.binding RETURNING 1) SELECT count(*) FROM gone").await;
    let declared = cli.run(&["topology", "declare"]).await;
    assert_eq!(declared.code, 0, "{}", declared.stderr);
    let topology = entries(&cli, "topology_declared").await;
    assert_eq!((&topology[0]["tenantId"], &topology[0]["actor"]["userId"]), (&json!("platform"), &json!("olga")));
    assert_eq!(cli.run(&["topology", "declare"]).await.code, 0);
    assert_eq!(entries(&cli, "topology_declared").await.len(), 1, "nothing was changed the second time");
    assert_eq!(cli.run(&["audit", "verify"]).await.code, 0);
}

#[tokio::test]
async fn changes_on_the_broker_are_recorded_even_if_postgresql_is_unchanged() {
    if left_out("rabbitmq") {
        return;
    }
    let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
    let platform = TestPlatform::on_bus(services(), Some(&url)).await;
    let namespace = platform.config().bus.namespace.clone();
    let cli = CliFixture::on_database(platform.database().url(), platform.database().owner().await);
    let bus = [("BROKER_URL", url.as_str()), ("ONCEWARD_BUS_NAMESPACE", namespace.as_str()), ("USER", "olga")];
    let declared = cli.run_with(&["topology", "declare", "--json", "--why", "a new broker"], &bus).await;
    assert_eq!(declared.code, 0, "{} {}", declared.stdout, declared.stderr);
    let made = declared.json()[0]["made"].as_array().expect("a list").clone();
    assert!(!made.is_empty() && made.iter().all(|one| one["on"] == "rabbitmq"), "{made:#?}");

    let recorded = entries(&cli, "topology_declared").await;
    assert_eq!(recorded.len(), 1, "{recorded:#?}");
    assert_eq!((&recorded[0]["actor"]["userId"], &recorded[0]["tenantId"]), (&json!("olga"), &json!("platform")));
    let payload = &recorded[0]["payload"];
    assert_eq!((&payload["why"], &payload["changed"]), (&json!("a new broker"), &json!([])));
    let expected: Vec<&Value> = made.iter().map(|one| &one["what"]).collect();
    assert_eq!(payload["changedOnBroker"], json!(expected));

    assert_eq!(cli.run_with(&["topology", "declare"], &bus).await.code, 0);
    assert_eq!(entries(&cli, "topology_declared").await.len(), 1, "nothing was changed the second time");
    assert_eq!(cli.run(&["audit", "verify"]).await.code, 0);
}

#[tokio::test]
async fn the_token_that_up_prints_is_recorded() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[("USER", "olga")]).await;
    let data = scratch.join("data");
    let args = ["audit", "list", "--json", "--action", "token_issued", "--data", data.to_str().expect("a plain path")];
    let listed = json_lines_of(&args, &[]).await;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    let entry = &listed[0]["entry"];
    assert_eq!((&entry["tenantId"], &entry["actor"]["userId"]), (&json!("demo"), &json!("olga")));
    assert_eq!((&entry["objectId"], &entry["payload"]["expiresInHours"]), (&json!("developer"), &json!(7 * 24)));
    assert!(
        entry["payload"]["roles"].as_array().is_some_and(|roles| roles.contains(&json!("orders:write"))),
        "{entry}"
    );
    assert!(!entry.to_string().contains(&up.token), "the token itself is not recorded");
    assert!(up.process.stop_with("INT").await.success());
}

#[tokio::test]
async fn a_token_is_issued_without_a_database_and_says_that_it_is_not_recorded() {
    let variables = [("ONCEWARD_AUTH_SECRET", SECRET)];
    let issued = crate::support::run(&["token", "issue", "--tenant", "acme", "--role", "nonsense"], &variables).await;
    let stderr = String::from_utf8_lossy(&issued.stderr);
    assert!(issued.status.success() && !issued.stdout.is_empty(), "{stderr}");
    assert!(stderr.contains("not recorded in the audit trail") && stderr.contains("DATABASE_URL"), "{stderr}");
    assert!(stderr.contains("no route requires the role nonsense"), "{stderr}");
}
