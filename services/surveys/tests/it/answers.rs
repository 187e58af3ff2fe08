//! Answers are read, exported and erased by authorized users only, and counts do not change.

use crate::support::*;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// Starts a session and answers the first page.
async fn answer_first_page<'s>(author: &AuthorClient<'s>, link: &str, age: u32) -> RespondentClient<'s> {
    let one = author.respondent(link).await;
    one.answer("who", 1, json!({"age": age, "sex": "f"})).await.with_status(200);
    one
}

async fn export(server: &TestServer, token: &str, survey: Uuid, format: &str) -> (u16, String, String) {
    let request = server.http.get(format!("{}/api/surveys/{survey}/export?format={format}", server.url));
    let response = request.bearer_auth(token).send().await.expect("a response");
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    (response.status().as_u16(), kind, response.text().await.expect("the whole stream"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_listed_page_by_page_and_exported_completely() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let ada = answer_first_page(&author, &link, 30).await;
    ada.answer("what", 1, json!({"drink": ["tea", "water"]})).await.with_status(200);
    ada.answer("why", 1, json!({"reason": "=1+1, \"so\""})).await.with_status(200);
    ada.complete().await.with_status(200);
    // Bob goes back and takes another path: answers on pages off that path do not count.
    let bob = answer_first_page(&author, &link, 40).await;
    bob.answer("what", 1, json!({"drink": ["tea"]})).await.with_status(200);
    bob.answer("why", 1, json!({"reason": "gone"})).await.with_status(200);
    bob.answer("what", 2, json!({"drink": []})).await.with_status(200);
    for age in 50..53 {
        answer_first_page(&author, &link, age).await;
    }

    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = author.get(&format!("/api/surveys/{survey}/answers?limit=2{after}")).await.with_status(200);
        seen.extend(page["sessions"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let ages: Vec<&Value> = seen.iter().map(|one| &one["answers"]["age"]).collect();
    assert_eq!(ages, [30, 40, 50, 51, 52], "each session once, in the order of their start");
    assert_eq!(seen[1]["answers"], json!({"age": 40, "sex": "f"}), "only the answers that count");
    let one = author.get(&format!("/api/surveys/{survey}/answers/{}", ada.session)).await.with_status(200);
    assert_eq!((&one["status"], &one["answers"]["drink"]), (&json!("completed"), &json!(["tea", "water"])));

    let token = server.platform.token("acme");
    let (status, kind, csv) = export(&server, &token, survey, "csv").await;
    assert!(status == 200 && kind.starts_with("text/csv"), "{status} {kind}");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 6);
    assert!(
        lines[0].starts_with("session_id,collector_id,version,status") && lines[0].ends_with(",age,sex,drink,reason")
    );
    assert!(lines[1].ends_with(",30,f,tea;water,\"'=1+1, \"\"so\"\"\""), "{}", lines[1]);
    let (_, _, jsonl) = export(&server, &token, survey, "jsonl").await;
    let lines: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines, seen);
    let audited = "SELECT count(*) FROM audit.entry WHERE event_type = 'answers_exported'";
    assert_eq!(server.query_value::<i64>(audited, &[]).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_of_many_batches_contains_every_session_once() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    answer_first_page(&author, &link, 20).await;
    let copies =
        "INSERT INTO surveys.session (tenant_id, session_id, survey_id, collector_id, version, start_digest, due_at)
        SELECT tenant_id, gen_random_uuid(), survey_id, collector_id, version, sha256(n::text::bytea), due_at
        FROM surveys.session CROSS JOIN generate_series(1, 450) AS n";
    server.owner.execute(copies, &[]).await.expect("copies");
    let (_, _, jsonl) = export(&server, &server.platform.token("acme"), survey, "jsonl").await;
    let ids: std::collections::BTreeSet<String> =
        jsonl.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["session_id"].to_string()).collect();
    assert_eq!((jsonl.lines().count(), ids.len()), (451, 451));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_without_the_role_cannot_read_or_erase_answers() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let ada = answer_first_page(&author, &link, 30).await;
    let writer = server.platform.token_for("acme", "author", &["surveys:read".into(), "surveys:write".into()], 600);
    let reader = server.platform.token_for("acme", "analyst", &["surveys:answers".into()], 600);
    let path = format!("{}/api/surveys/{survey}/answers/{}", server.url, ada.session);
    assert_eq!(HttpResponse::to(server.http.get(&path).bearer_auth(&writer)).await.problem(403), "forbidden");
    assert_eq!(export(&server, &writer, survey, "csv").await.0, 403);
    let erase = server.http.delete(&path).header("idempotency-key", Uuid::new_v4().to_string());
    assert_eq!(HttpResponse::to(erase.bearer_auth(&reader)).await.problem(403), "forbidden");
    let other = server.author("other");
    for path in ["answers".to_owned(), format!("answers/{}", ada.session), "export".to_owned()] {
        assert_eq!(other.get(&format!("/api/surveys/{survey}/{path}")).await.status, 404, "{path}");
    }
    let erased = other.send(Method::DELETE, &format!("/api/surveys/{survey}/answers/{}", ada.session), None).await;
    assert_eq!(erased.status, 404);
    assert_eq!(server.query_value::<i64>("SELECT count(*) FROM surveys.answer", &[]).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn erased_answers_are_removed_and_counts_are_kept() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    author.quotas(survey, &json!({"buckets": [{"name": "all", "target": 5}]})).await;
    let (collector, _) = author.collector(survey, json!({"kind": "invite"})).await;
    let refs = json!({"refs": ["ada@example.org", "ada@example.org", "bob"]});
    let created = author.post(&format!("/api/collectors/{collector}/invites"), &refs).await.with_status(201);
    let token = |at: usize| created["invites"][at]["token"].as_str().unwrap().to_owned();
    let done = answer_first_page(&author, &token(0), 30).await;
    done.answer("what", 1, json!({})).await.with_status(200);
    done.complete().await.with_status(200);
    let active = answer_first_page(&author, &token(1), 31).await;
    let bob = answer_first_page(&author, &token(2), 32).await;
    assert_eq!(author.bucket_counts(survey, "all").await, (2, 1, 5));

    let path = format!("/api/surveys/{survey}/erasures");
    let erased = author.post(&path, &json!({"ref": "ada@example.org"})).await.with_status(200);
    let mut expected = [done.session, active.session];
    expected.sort();
    assert_eq!(erased, json!({"erased": expected, "more": false}));
    assert_eq!(author.post(&path, &json!({"ref": "ada@example.org"})).await.with_status(200)["erased"], json!([]));
    let left = "SELECT count(*) FROM surveys.answer WHERE session_id = ANY ($1)";
    assert_eq!(server.query_value::<i64>(left, &[&expected.to_vec()]).await, 0);
    assert_eq!(
        author.bucket_counts(survey, "all").await,
        (1, 1, 5),
        "the reserved place is released, the filled one is kept"
    );
    server.assert_places_consistent().await;
    assert_eq!(active.view().await.with_status(200)["status"], "terminated");
    assert_eq!(active.answer("what", 1, json!({})).await.problem(409), "session-ended");
    let refs: i64 = server.query_value("SELECT count(*) FROM surveys.invite WHERE external_ref LIKE 'ada%'", &[]).await;
    assert_eq!(refs, 0);
    let shown = author.get(&format!("/api/surveys/{survey}/answers/{}", done.session)).await.with_status(200);
    assert!(shown["erased_at"].is_string() && shown["answers"] == json!({}), "{shown}");

    let one = author.send(Method::DELETE, &format!("/api/surveys/{survey}/answers/{}", bob.session), None).await;
    assert_eq!(one.with_status(200)["erased"], json!([bob.session]));
    server.wait_for_published("session.erased.v1", 3).await;
    server.wait_for_published("session.terminated.v1", 2).await;
    let audited = "SELECT count(*) FROM audit.entry WHERE event_type = 'answers_erased'";
    assert_eq!(server.query_value::<i64>(audited, &[]).await, 3);
    let texts = "SELECT count(*) FROM audit.entry WHERE document::text LIKE '%example.org%'";
    assert_eq!(server.query_value::<i64>(texts, &[]).await, 0, "the audit trail, which cannot be erased, names nobody");
    let live = onceward_testkit::eventually("the events are counted", || async {
        let live = author.get(&format!("/api/surveys/{survey}/live")).await.with_status(200);
        // None is active either before the others have been counted as started.
        let sessions = &live["sessions"];
        (sessions["started"] == 3 && sessions["active"] == 0).then_some(live)
    })
    .await;
    assert_eq!(live["sessions"]["completed"], json!(1));
}
