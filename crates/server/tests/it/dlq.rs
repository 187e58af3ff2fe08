//! `onceward dlq`: what an operator sees and does.

use crate::{
    letters::{Desk, QUEUE},
    support::Scratch,
};
use onceward_testkit::{TestPlatform, eventually};
use serde_json::{Value, json};

const WHY: [&str; 2] = ["--why", "the stock service is back"];

fn ids(lines: &[Value]) -> Vec<i64> {
    lines.iter().map(|line| line["id"].as_i64().expect("an id")).collect()
}

#[tokio::test]
async fn letters_are_listed_by_filter_and_page() {
    let desk = Desk::new().await;
    let cup = desk.bury("acme", "cup").await;
    let pot = desk.bury("bolt", "pot").await;
    let pan = desk.bury_in(QUEUE, "acme", "pan", "schema_violation").await;
    let listed = desk.run(&["dlq", "list", "--json"]).await;
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
        assert_eq!(ids(&desk.run(&args).await.json()), expected, "{filter:?}");
    }
    let table = desk.run(&["dlq", "list", "--limit", "2"]).await;
    assert_eq!(table.printed.lines().count(), 3);
    assert!(
        table.printed.contains("the last error") && table.said.contains(&format!("--after {pot}")),
        "{}",
        table.said
    );
    assert_eq!(desk.run(&["dlq", "list", "--older-than", "soon"]).await.code, 2);
}

#[tokio::test]
async fn a_letter_is_shown_with_its_message_and_its_history() {
    let desk = Desk::new().await;
    let id = desk.bury("acme", "cup").await.to_string();
    let put_away = desk.run(&["dlq", "quarantine", &id, "--tag", "poison", "--why", "it kills workers"]).await;
    assert_eq!(put_away.code, 0, "{}", put_away.said);
    let shown = desk.run(&["dlq", "show", &id, "--json"]).await.json().remove(0);
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
    let page = desk.run(&["dlq", "show", &id]).await.printed;
    assert!(page.contains("\"sku\": \"cup\"") && page.contains("by olga: it kills workers"), "{page}");
    let missing = desk.run(&["dlq", "show", "4711"]).await;
    assert_eq!((missing.code, missing.said.as_str()), (3, "there is no dead letter 4711\n"));
}

#[tokio::test]
async fn a_requeued_letter_is_handled_by_a_running_worker() {
    let mut platform = TestPlatform::new(vec![onceward_example_orders::service()]).await;
    platform.run_consumers();
    let desk = Desk::at(platform.database().url(), platform.database().owner().await);
    desk.bury("acme", "cup").await;
    desk.bury("acme", "cup").await;
    let args = ["dlq", "requeue", "--all", "--queue", QUEUE, WHY[0], WHY[1]];
    let requeued = desk.run(&args).await;
    assert_eq!((requeued.code, requeued.said.as_str()), (0, "2 requeued\n"));
    assert!(
        requeued.printed.contains("due now") && requeued.printed.contains("behind others of key cup"),
        "{}",
        requeued.printed
    );
    eventually("both are handled", || async {
        let taken = desk
            .count("SELECT 1000 - coalesce((SELECT available FROM orders.stock WHERE sku = 'cup'), 1000)::bigint")
            .await;
        (taken == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_says_what_would_happen_and_changes_nothing() {
    let desk = Desk::new().await;
    let first = desk.bury("acme", "cup").await;
    let second = desk.bury("acme", "cup").await;
    let state = "SELECT (SELECT count(*) FROM onceward.deferred) + (SELECT count(*) FROM onceward.dead_letter_act)
                 + (SELECT count(*) FROM onceward.dead_letters WHERE status <> 'dead') + (SELECT count(*) FROM onceward.lane)";
    for act in [&["requeue", "--spread", "1m"][..], &["quarantine", "--tag", "poison"]] {
        let args: Vec<&str> =
            ["dlq"].iter().chain(act).chain(&WHY).chain(&["--all", "--dry-run", "--json"]).copied().collect();
        let rehearsed = desk.run(&args).await;
        assert_eq!((rehearsed.code, ids(&rehearsed.json())), (0, vec![first, second]), "{}", rehearsed.said);
        assert!(rehearsed.json().iter().all(|line| line["dryRun"] == true), "{}", rehearsed.printed);
        assert_eq!(desk.count(state).await, 0, "{act:?}");
    }
    let (dry, real) = (["--dry-run", "--json"], ["--json"]);
    let mut told = Vec::new();
    for mode in [&dry[..], &real] {
        let args: Vec<&str> = ["dlq", "requeue", "--all"].iter().chain(&WHY).chain(mode).copied().collect();
        told.push(
            desk.run(&args)
                .await
                .json()
                .iter()
                .map(|line| (line["id"].clone(), line["waitMs"].clone()))
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(told[0], told[1], "the rehearsal told the truth");
    assert_eq!(told[0], [(json!(first), json!(0)), (json!(second), Value::Null)]);
}

#[tokio::test]
async fn quarantined_letters_are_left_alone_unless_they_are_named_and_forced() {
    let desk = Desk::new().await;
    let id = desk.bury("acme", "cup").await.to_string();
    assert_eq!(desk.run(&["dlq", "quarantine", &id, "--tag", "poison", "--why", "bad"]).await.code, 0);
    assert_eq!(desk.run(&["dlq", "list", "--json"]).await.json(), [] as [Value; 0]);
    let all = desk.run(&["dlq", "requeue", "--all", "--why", "try"]).await;
    assert_eq!((all.code, all.said.as_str()), (3, "there was nothing to requeue\n"));
    let named = desk.run(&["dlq", "requeue", &id, "--why", "try"]).await;
    assert_eq!(named.code, 3);
    assert!(named.said.contains("it is quarantined") && named.said.contains("--force"), "{}", named.said);
    assert_eq!(desk.run(&["dlq", "requeue", &id, "--why", "try", "--force"]).await.code, 0);
    let history = desk.run(&["dlq", "history", "--json"]).await.json();
    assert_eq!(history.iter().map(|act| act["act"].as_str().unwrap()).collect::<Vec<_>>(), ["requeued", "quarantined"]);
    let words = desk.run(&["dlq", "history", "--limit", "1"]).await;
    assert!(words.printed.contains("requeued letter") && words.said.contains("--before"), "{}", words.printed);
}

#[tokio::test]
async fn bad_ids_are_named_and_the_exit_code_tells_how_it_went() {
    let desk = Desk::new().await;
    let id = desk.bury("acme", "cup").await.to_string();
    let some = desk.run(&["dlq", "requeue", "4711", &id, "--why", "try"]).await;
    assert_eq!(some.code, 1);
    assert!(some.said.contains("4711 was not requeued: there is no such dead letter"), "{}", some.said);
    let again = desk.run(&["dlq", "requeue", &id, "--why", "try", "--json"]).await;
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
        assert_eq!(desk.run(misused).await.code, 2, "{misused:?}");
    }
    let nobody = desk.run_with(&["dlq", "requeue", &id, "--why", "who?"], &[]).await;
    assert!(nobody.code == 2 && nobody.said.contains("--as"), "{}", nobody.said);
    let named = desk.bury("acme", "pot").await.to_string();
    let args = ["dlq", "requeue", &named, "--why", "try", "--as", "ivan"];
    assert_eq!(desk.run_with(&args, &[]).await.code, 0);
    assert_eq!(desk.run(&["dlq", "history", "--json", "--limit", "1"]).await.json()[0]["actor"], "ivan");
}

#[tokio::test]
async fn letters_are_exported_whole_page_by_page() {
    let desk = Desk::new().await;
    for nth in 0..250 {
        desk.bury("acme", &format!("sku {nth}")).await;
    }
    desk.bury("bolt", "other").await;
    let scratch = Scratch::new();
    let file = scratch.join("letters.jsonl");
    let exported = desk.run(&["dlq", "export", "--tenant", "acme", "--out", file.to_str().unwrap()]).await;
    assert_eq!((exported.code, exported.printed.as_str(), exported.said.as_str()), (0, "", "250 written\n"));
    let lines: Vec<Value> =
        std::fs::read_to_string(&file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let skus: std::collections::HashSet<&str> =
        lines.iter().map(|line| line["message"]["payload"]["sku"].as_str().unwrap()).collect();
    assert_eq!((lines.len(), skus.len()), (250, 250));
    let piped = desk.run(&["dlq", "export", "--tenant", "bolt"]).await;
    assert_eq!(piped.json()[0]["message"]["payload"]["sku"], "other");
    assert_eq!(desk.run(&["dlq", "export", "--tenant", "nobody"]).await.code, 3);
}

#[tokio::test]
async fn on_postgres_there_is_nothing_to_collect() {
    let collected = Desk::new().await.run(&["dlq", "collect"]).await;
    assert_eq!(collected.code, 3);
    assert!(collected.said.contains("nothing to collect"), "{}", collected.said);
}
