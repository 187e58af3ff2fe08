//! The live view's counts are accurate: every page, who has left, how far counting lags behind, and what is removed.

use crate::{
    dash::{SessionIds, counts, live, publish_event, wait_until_counted},
    support::*,
};
use onceward_surveys::service;
use onceward_testkit::{TestPlatform, eventually};
use serde_json::{Value, json};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_funnel_lists_every_page_and_inactive_sessions_count_as_left() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let mut titled = definition();
    titled["pages"][0]["title"] = json!("About you");
    let survey = author.survey(&titled).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let (ada, bob) = (author.respondent(&link).await, author.respondent(&link).await);
    author.respondent(&link).await;
    ada.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    ada.answer("what", 1, json!({})).await.with_status(200);
    ada.complete().await.with_status(200);
    bob.answer("who", 1, json!({"age": 30, "sex": "m"})).await.with_status(200);
    let shown = live(&author, survey, |live| live["events"]["counted"] == 7).await;
    let pages = |live: &Value| live["pages"].as_array().unwrap().iter().map(counts).collect::<Vec<_>>();
    let expected = |at_who: [i64; 4], at_what: [i64; 4]| {
        let rest = [("why", [1, 0, 0, 0]), ("", [1, 0, 0, 0])];
        [("who", at_who), ("what", at_what)]
            .into_iter()
            .chain(rest)
            .map(|(id, all)| (id.to_owned(), all))
            .collect::<Vec<_>>()
    };
    assert_eq!(pages(&shown), expected([3, 1, 0, 0], [2, 1, 0, 0]), "a session counts on its current page only");
    assert_eq!((&shown["pages"][0]["title"], &shown["pages"][1]["title"]), (&json!("About you"), &Value::Null));

    // Bob was last seen longer ago than places are held.
    let inactive = "UPDATE surveys.dash_session SET seen_at = seen_at - interval '21 minutes' WHERE session_id = $1";
    server.owner.execute(inactive, &[&bob.session]).await.unwrap();
    let shown = live(&author, survey, |live| live["sessions"]["left"] == 1).await;
    assert_eq!(pages(&shown), expected([3, 1, 0, 0], [2, 0, 1, 0]));
    bob.answer("what", 1, json!({"drink": ["tea"]})).await.with_status(200);
    let back = live(&author, survey, |live| live["pages"][2]["here"] == 1).await;
    assert_eq!(back["sessions"]["left"], 0);
    assert_eq!(counts(&back["pages"][2]), ("why".to_owned(), [2, 1, 0, 0]), "a session that continues is active again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_are_shown_in_the_order_of_their_creation() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let names = ["west", "east", "north", "anywhere"];
    let buckets: Vec<Value> = names.iter().map(|name| json!({"name": name, "target": 1})).collect();
    author.quotas(survey, &json!({ "buckets": buckets })).await;
    let shown = live(&author, survey, |_| true).await;
    let shown: Vec<&str> =
        shown["quotas"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(shown, names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lag_grows_while_nothing_is_counted_and_disappears_afterwards() {
    let mut platform = TestPlatform::new(vec![service(settings())]).await;
    let url = platform.serve_http().await;
    let (owner, token) = (platform.database().owner().await, platform.token("acme"));
    let http = reqwest::Client::new();
    let body = json!({"title": "Quiet", "definition": short_definition()});
    let created =
        http.post(format!("{url}/api/surveys")).bearer_auth(&token).header("idempotency-key", "k").json(&body);
    let survey = HttpResponse::to(created).await.with_status(201)["survey_id"].as_str().unwrap().to_owned();
    let lag = async || {
        let live = HttpResponse::to(http.get(format!("{url}/api/surveys/{survey}/live")).bearer_auth(&token)).await;
        live.with_status(200)["events"]["lag_ms"].as_i64().expect("a number")
    };
    // No consumer runs and nothing happens in the survey: the lag is shown all the same.
    assert_eq!(lag().await, 0, "no probe was sent before the first view");
    owner.execute("UPDATE surveys.dash_probe SET sent_at = sent_at - interval '40 seconds'", &[]).await.unwrap();
    let first = lag().await;
    assert!(first >= 40_000, "{first}");
    eventually("the lag grows", || async { (lag().await > first).then_some(()) }).await;
    owner.execute("UPDATE surveys.dash_probe SET sent_at = sent_at + interval '40 seconds'", &[]).await.unwrap();
    platform.run_consumers();
    eventually("the lag is 0", || async { (lag().await == 0).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_counters_are_removed_in_batches_and_totals_are_kept() {
    let settings = onceward_surveys::Settings { live_keep_days: 30, ..settings() };
    let server = TestServer::start_with(settings, None).await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (old, new, open) =
        (SessionIds::new_session(survey), SessionIds::new_session(survey), SessionIds::new_session(survey));
    for session in [old, new] {
        publish_event(&server.platform, "acme", &session.started()).await;
        publish_event(&server.platform, "acme", &session.completed()).await;
    }
    publish_event(&server.platform, "acme", &open.started()).await;
    wait_until_counted(&server.owner, survey, 5).await;
    let age = "UPDATE surveys.dash_session SET seen_at = now() - interval '31 days' WHERE session_id = ANY ($1)";
    server.owner.execute(age, &[&vec![old.session_id, open.session_id]]).await.unwrap();
    // More than two batches of minutes that are too old, and one that is recent.
    let minutes =
        "INSERT INTO surveys.dash_tally (tenant_id, survey_id, minute, collector_id, bucket_id, kind, detail, n)
        SELECT 'acme', $1, date_trunc('minute', now()) - make_interval(days => 31, mins => n), $1, $1, 'started', '', 1
        FROM generate_series(1, 11000) AS n";
    server.owner.execute(minutes, &[&survey]).await.unwrap();
    let tick = json!({"schedule": "test", "scheduledFor": "2026-01-01T00:00:00Z"});
    let sql =
        "SELECT onceward.enqueue('acme', 'surveys.schedules:tenant.acme.counters.forget', 'counters.forget.v1', $1)";
    let tx = server.platform.db().begin(server.platform.scope("acme")).await.unwrap();
    tx.query(sql, &[&tick]).await.expect("the message is published");
    tx.commit().await.unwrap();
    let left = || async {
        let sql = "SELECT (SELECT count(*) FROM surveys.dash_tally WHERE minute < now() - interval '30 days'),
            (SELECT array_agg(session_id ORDER BY session_id) FROM surveys.dash_session)";
        let row = server.owner.query_one(sql, &[]).await.unwrap();
        let sessions: Vec<Uuid> = row.get(1);
        (row.get::<_, i64>(0) == 0 && sessions.len() == 2).then_some(sessions)
    };
    let sessions = eventually("old counters are removed", left).await;
    assert_eq!(sessions, [new.session_id, open.session_id], "an active session stays, however old");
    let shown = live(&author, survey, |_| true).await;
    let totals = ["started", "completed"].map(|name| shown["sessions"][name].as_i64().unwrap());
    assert_eq!((totals, &shown["events"]["counted"]), ([3, 2], &json!(5)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overfill_metric_reads_no_bucket_while_the_constraint_exists() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    author.quotas(survey, &json!({"buckets": [{"name": "all", "target": 1}]})).await;
    // Every query that reads a bucket would wait for this lock.
    server.owner.batch_execute("BEGIN; LOCK TABLE surveys.quota_bucket IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let other = server.platform.database().owner().await;
    other.batch_execute("SET statement_timeout = '20s'").await.unwrap();
    let overfill: i64 = other.query_one("SELECT surveys.dash_overfill()", &[]).await.expect("no bucket is read").get(0);
    assert_eq!(overfill, 0);
    server.owner.batch_execute("ROLLBACK").await.unwrap();
}
