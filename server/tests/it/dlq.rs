//! `onceward dlq`: how operators inspect, requeue, quarantine and export dead letters.

use crate::{
    cli_fixture::{CliFixture, QUEUE},
    support::Scratch,
};
use onceward_testkit::{TestPlatform, eventually};
use serde_json::{Value, json};

const WHY: [&str; 2] = ["--why", "the stock service is back"];

fn ids(lines: &[Value]) -> Vec<i64> {
    lines.iter().map(|line| line["id"].as_i64().expect("an id")).collect()
}

#[tokio::test]
async fn dead_letters_are_listed_by_filter_and_page() {
    let cli = CliFixture::new().await;
    let cup = cli.insert_dead_letter("acme", "cup").await;
    let pot = cli.insert_dead_letter("bolt", "pot").await;
    let pan = cli.insert_dead_letter_in(QUEUE, "acme", "pan", "schema_violation").await;
    let listed = cli.run(&["dlq", "list", "--json"]).await;
    assert_eq!((listed.code, ids(&listed.json())), (0, vec![pan, pot, cup]));
    let line = &listed.json()[2];
    assert_eq!(
        (&line["queue"], &line["tenant"], &line["eventType"], &line["reason"], &line["attempts"]),
        (&json!(QUEUE), &json!("acme"), &json!("order.placed.v1"), &json!("attempts_exhausted"), &json!(3))
    );
    assert_eq!(
        (&line["lastError"], &line["correlationId"], &line["status"]),
        (&json!("the last error"), &json!("story-cup"), &json!("dead"))
    );
    assert!(line["deadAt"].is_string() && line.get("message").is_none(), "{line}");
    for (filter, expected) in [
        (&["--tenant", "acme"][..], vec![pan, cup]),
        (&["--type", "order.placed", "--reason", "schema_violation"], vec![pan]),
        (&["--type", "order.placed.v2"], vec![]),
        (&["--queue", "other"], vec![]),
        (&["--older-than", "1h"], vec![]),
        (&["--newer-than", "1h", "--limit", "1"], vec![pan]),
        (&["--after", &pan.to_string(), "--limit", "1"], vec![pot]),
        (&["--status", "quarantined"], vec![]),
        (&["--status", "all"], vec![pan, pot, cup]),
    ] {
        let args: Vec<&str> = ["dlq", "list", "--json"].into_iter().chain(filter.iter().copied()).collect();
        assert_eq!(ids(&cli.run(&args).await.json()), expected, "{filter:?}");
    }
    let table = cli.run(&["dlq", "list", "--limit", "2"]).await;
    assert_eq!(table.stdout.lines().count(), 3);
    assert!(
        table.stdout.contains("the last error") && table.stderr.contains(&format!("--after {pot}")),
        "{}",
        table.stderr
    );
    assert_eq!(cli.run(&["dlq", "list", "--older-than", "soon"]).await.code, 2);
    let none = cli.run(&["dlq", "list", "--queue", "other"]).await;
    assert!(
        none.stdout.starts_with("id") && none.stdout.ends_with("there are no matching dead letters\n"),
        "{}",
        none.stdout
    );
    let history = cli.run(&["dlq", "history"]).await;
    assert!(history.stdout.ends_with("no operator has acted on a dead letter yet\n"), "{}", history.stdout);
}

#[tokio::test]
async fn a_dead_letter_is_shown_with_its_message_and_its_history() {
    let cli = CliFixture::new().await;
    let id = cli.insert_dead_letter("acme", "cup").await.to_string();
    let quarantined = cli.run(&["dlq", "quarantine", &id, "--tag", "poison", "--why", "it kills workers"]).await;
    assert_eq!(quarantined.code, 0, "{}", quarantined.stderr);
    let shown = cli.run(&["dlq", "show", &id, "--json"]).await.json().remove(0);
    assert_eq!((&shown["message"]["payload"]["sku"], &shown["firstError"]), (&json!("cup"), &json!("the first error")));
    assert_eq!(
        (&shown["status"], &shown["tag"], &shown["requeues"]),
        (&json!("quarantined"), &json!("poison"), &json!(0))
    );
    let act = &shown["history"][0];
    assert_eq!(
        (&act["act"], &act["actor"], &act["why"]),
        (&json!("quarantined"), &json!("olga"), &json!("it kills workers"))
    );
    let page = cli.run(&["dlq", "show", &id]).await.stdout;
    assert!(page.contains("\"sku\": \"cup\"") && page.contains("by olga: it kills workers"), "{page}");
    let missing = cli.run(&["dlq", "show", "4711"]).await;
    assert_eq!((missing.code, missing.stderr.as_str()), (3, "there is no dead letter 4711\n"));
}

#[tokio::test]
async fn a_requeued_dead_letter_is_handled_by_a_running_worker() {
    let mut platform = TestPlatform::new(vec![onceward_example_orders::service()]).await;
    platform.run_consumers();
    let cli = CliFixture::on_database(platform.database().url(), platform.database().owner().await);
    cli.insert_dead_letter("acme", "cup").await;
    cli.insert_dead_letter("acme", "cup").await;
    let args = ["dlq", "requeue", "--all", "--queue", QUEUE, WHY[0], WHY[1]];
    let requeued = cli.run(&args).await;
    assert_eq!((requeued.code, requeued.stderr.as_str()), (0, "2 requeued\n"));
    assert!(
        requeued.stdout.contains("due now") && requeued.stdout.contains("behind other messages of key cup"),
        "{}",
        requeued.stdout
    );
    eventually("both are handled", || async {
        let taken = cli
            .count("SELECT 1000 - coalesce((SELECT available FROM orders.stock WHERE sku = 'cup'), 1000)::bigint")
            .await;
        (taken == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_reports_what_would_happen_and_changes_nothing() {
    let cli = CliFixture::new().await;
    let first = cli.insert_dead_letter("acme", "cup").await;
    let second = cli.insert_dead_letter("acme", "cup").await;
    let state = "SELECT (SELECT count(*) FROM onceward.deferred) + (SELECT count(*) FROM onceward.dead_letter_act)
                 + (SELECT count(*) FROM onceward.dead_letters WHERE status <> 'dead') + (SELECT count(*) FROM onceward.lane)";
    for act in [&["requeue", "--spread", "1m"][..], &["quarantine", "--tag", "poison"]] {
        let args: Vec<&str> =
            ["dlq"].iter().chain(act).chain(&WHY).chain(&["--all", "--dry-run", "--json"]).copied().collect();
        let dry_run = cli.run(&args).await;
        assert_eq!((dry_run.code, ids(&dry_run.json())), (0, vec![first, second]), "{}", dry_run.stderr);
        assert!(dry_run.json().iter().all(|line| line["dryRun"] == true), "{}", dry_run.stdout);
        assert_eq!(cli.count(state).await, 0, "{act:?}");
    }
    let (dry, real) = (["--dry-run", "--json"], ["--json"]);
    let mut plans = Vec::new();
    for mode in [&dry[..], &real] {
        let args: Vec<&str> = ["dlq", "requeue", "--all"].iter().chain(&WHY).chain(mode).copied().collect();
        plans.push(
            cli.run(&args)
                .await
                .json()
                .iter()
                .map(|line| (line["id"].clone(), line["waitMs"].clone()))
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(plans[0], plans[1], "the dry run reports what the real run does");
    assert_eq!(plans[0], [(json!(first), json!(0)), (json!(second), Value::Null)]);
}

#[tokio::test]
async fn quarantined_letters_are_requeued_only_by_id_and_with_force() {
    let cli = CliFixture::new().await;
    let id = cli.insert_dead_letter("acme", "cup").await.to_string();
    assert_eq!(cli.run(&["dlq", "quarantine", &id, "--tag", "poison", "--why", "bad"]).await.code, 0);
    assert_eq!(cli.run(&["dlq", "list", "--json"]).await.json(), [] as [Value; 0]);
    let all = cli.run(&["dlq", "requeue", "--all", "--why", "try"]).await;
    assert_eq!((all.code, all.stderr.as_str()), (3, "there was nothing to requeue\n"));
    let named = cli.run(&["dlq", "requeue", &id, "--why", "try"]).await;
    assert_eq!(named.code, 3);
    assert!(named.stderr.contains("it is quarantined") && named.stderr.contains("--force"), "{}", named.stderr);
    assert_eq!(cli.run(&["dlq", "requeue", &id, "--why", "try", "--force"]).await.code, 0);
    let history = cli.run(&["dlq", "history", "--json"]).await.json();
    assert_eq!(history.iter().map(|act| act["act"].as_str().unwrap()).collect::<Vec<_>>(), ["requeued", "quarantined"]);
    let text = cli.run(&["dlq", "history", "--limit", "1"]).await;
    assert!(text.stdout.contains("  requeued  ") && text.stderr.contains("--before"), "{}", text.stdout);
}

#[tokio::test]
async fn unknown_ids_are_named_and_the_exit_code_reports_the_outcome() {
    let cli = CliFixture::new().await;
    let id = cli.insert_dead_letter("acme", "cup").await.to_string();
    let some = cli.run(&["dlq", "requeue", "4711", &id, "--why", "try"]).await;
    assert_eq!(some.code, 1);
    assert!(some.stderr.contains("4711 was not requeued: there is no such dead letter"), "{}", some.stderr);
    let again = cli.run(&["dlq", "requeue", &id, "--why", "try", "--json"]).await;
    assert_eq!(
        (again.code, &again.json()[0]["refusal"], &again.json()[0]["outcome"]),
        (3, &json!("requeued"), &json!("refused"))
    );
    for misused in [
        &["dlq", "requeue", "--why", "no ids"][..],
        &["dlq", "requeue", "--tenant", "acme", "--why", "filters without --all"],
        &["dlq", "requeue", &id, "--tenant", "acme", "--why", "both"],
        &["dlq", "requeue", &id, "--all", "--why", "both"],
        &["dlq", "requeue", "--all", "--force", "--why", "force without ids"],
        &["dlq", "requeue", &id],
        &["dlq", "requeue", &id, "--why", " "],
        &["dlq", "quarantine", &id, "--why", "no tag"],
    ] {
        assert_eq!(cli.run(misused).await.code, 2, "{misused:?}");
    }
    let without_user = cli.insert_dead_letter("acme", "pan").await.to_string();
    let by_account = cli.run_with(&["dlq", "requeue", &without_user, "--why", "no USER is set"], &[]).await;
    assert_eq!(by_account.code, 0, "{}", by_account.stderr);
    let act = cli.run(&["dlq", "history", "--json", "--limit", "1"]).await.json().remove(0);
    assert!(act["actor"].as_str().is_some_and(|actor| actor.contains('@')), "the account and its machine: {act}");
    let named = cli.insert_dead_letter("acme", "pot").await.to_string();
    let args = ["dlq", "requeue", &named, "--why", "try", "--as", "ivan"];
    assert_eq!(cli.run_with(&args, &[]).await.code, 0);
    assert_eq!(cli.run(&["dlq", "history", "--json", "--limit", "1"]).await.json()[0]["actor"], "ivan");
}

#[tokio::test]
async fn dead_letters_are_exported_completely_page_by_page() {
    let cli = CliFixture::new().await;
    for nth in 0..250 {
        cli.insert_dead_letter("acme", &format!("sku {nth}")).await;
    }
    cli.insert_dead_letter("bolt", "other").await;
    let scratch = Scratch::new();
    let file = scratch.join("letters.jsonl");
    let exported = cli.run(&["dlq", "export", "--tenant", "acme", "--out", file.to_str().unwrap()]).await;
    assert_eq!((exported.code, exported.stdout.as_str(), exported.stderr.as_str()), (0, "", "250 written\n"));
    let lines: Vec<Value> =
        std::fs::read_to_string(&file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let skus: std::collections::HashSet<&str> =
        lines.iter().map(|line| line["message"]["payload"]["sku"].as_str().unwrap()).collect();
    assert_eq!((lines.len(), skus.len()), (250, 250));
    let piped = cli.run(&["dlq", "export", "--tenant", "bolt"]).await;
    assert_eq!(piped.json()[0]["message"]["payload"]["sku"], "other");
    assert_eq!(cli.run(&["dlq", "export", "--tenant", "nobody"]).await.code, 3);
}

#[tokio::test]
async fn on_postgres_there_is_nothing_to_collect() {
    let collected = CliFixture::new().await.run(&["dlq", "collect"]).await;
    assert_eq!(collected.code, 3);
    assert!(collected.stderr.contains("nothing to collect"), "{}", collected.stderr);
}
