//! Steps that arrive at the same time share a transaction, and no respondent notices.

mod concurrent;
mod metrics;

use crate::support::*;
use concurrent::{QUEUE_MAX, StepKind, StepRequest, count_commits, send_concurrently, start_server};
use onceward_testkit::eventually;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

fn woman() -> Value {
    json!({"sex": "f", "region": "north"})
}

/// Creates a survey with a bucket for women. Returns it with the token of a link.
async fn survey(author: &AuthorClient<'_>, target: usize) -> (Uuid, String) {
    let survey = author.survey(&short_definition()).await;
    let women = json!({"equals": {"question": "sex", "value": "f"}});
    author.quotas(survey, &json!({"buckets": [{"name": "women", "condition": women, "target": target}]})).await;
    let (_, link) = author.collector(survey, json!({})).await;
    (survey, link)
}

async fn respondents<'s>(author: &AuthorClient<'s>, link: &str, count: usize) -> Vec<RespondentClient<'s>> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(author.respondent(link).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_steps_share_a_commit_and_keep_their_own_correlation_ids() {
    let server = start_server().await;
    let author = server.author("acme");
    let (survey, link) = survey(&author, QUEUE_MAX - 2).await;
    let all = respondents(&author, &link, QUEUE_MAX).await;
    let requests: Vec<StepRequest<'_>> =
        all.iter().map(|one| StepRequest::new(one, StepKind::Answer(1, woman()))).collect();
    let answers = send_concurrently(&server, &link, &requests).await;
    assert!(
        count_commits(&server, &requests).await <= 2,
        "one for all, and one for a request that may have been retried"
    );
    let full = answers.into_iter().filter(|one| one.clone().with_status(200)["reason"] == "quota_full").count();
    assert_eq!((full, author.bucket_counts(survey, "women").await.0), (2, QUEUE_MAX as i64 - 2));

    let sql = "SELECT o.payload, o.correlation_id, o.event_type
        FROM onceward.outbox_messages o JOIN onceward.message_log m ON m.id = o.id AND m.copy = 0
        WHERE o.event_type IN ('answer.upserted.v1', 'quota.reserved.v1', 'session.terminated.v1') ORDER BY m.seq";
    let published = server.owner.query(sql, &[]).await.expect("the published messages");
    let correlation_ids: BTreeMap<String, &str> = requests
        .iter()
        .map(|request| (request.respondent.session.to_string(), request.correlation_id.as_str()))
        .collect();
    let (mut reserved, mut matched) = (Vec::new(), 0);
    for row in &published {
        let payload: Value = row.get(0);
        if let Some(correlation_id) = correlation_ids.get(payload["session_id"].as_str().expect("a session")) {
            assert_eq!(row.get::<_, &str>(1), *correlation_id, "{payload}");
            matched += 1;
        }
        if row.get::<_, &str>(2) == "quota.reserved.v1" {
            reserved.push(payload["reserved"].as_u64().expect("a count"));
        }
    }
    assert_eq!(matched, 2 * QUEUE_MAX, "each submits a page, and gets a place or is terminated");
    assert_eq!(reserved, (1..=QUEUE_MAX as u64 - 2).collect::<Vec<_>>(), "as if the steps had run one after the other");

    let completions: Vec<StepRequest<'_>> =
        requests.iter().map(|request| StepRequest::new(&request.respondent, StepKind::Complete)).collect();
    let ends = send_concurrently(&server, &link, &completions).await;
    let completed = ends.into_iter().filter(|one| one.clone().with_status(200)["status"] == "completed").count();
    assert_eq!(completed, QUEUE_MAX - 2);
    assert_eq!(author.bucket_counts(survey, "women").await, (0, QUEUE_MAX as i64 - 2, QUEUE_MAX as i64 - 2));
    assert_eq!(server.published_count("quota.bucket_closed.v1").await, 1);
    server.assert_places_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_one_step_is_reported_to_that_step_alone() {
    let server = start_server().await;
    let author = server.author("acme");
    let (survey, link) = survey(&author, 100).await;
    let all = respondents(&author, &link, QUEUE_MAX).await;
    all[0].leave().await.with_status(200);
    all[1].answer("only", 1, woman()).await.with_status(200);
    all[2].answer("only", 2, woman()).await.with_status(200);
    server
        .owner
        .execute("DELETE FROM surveys.session WHERE session_id = $1", &[&all[3].session])
        .await
        .expect("the session is deleted");
    let mut requests = vec![
        StepRequest::new(&all[0], StepKind::Answer(1, woman())),
        StepRequest::new(&all[1], StepKind::Answer(1, woman())),
        StepRequest::new(&all[2], StepKind::Answer(1, woman())),
        StepRequest::new(&all[3], StepKind::Answer(1, woman())),
        StepRequest::new(&all[4], StepKind::Page("other")),
        StepRequest::new(&all[5], StepKind::Answer(1, json!({"sex": "f", "region": "west"}))),
        StepRequest::new(&all[6], StepKind::Complete),
        StepRequest::new(&all[7], StepKind::Leave),
    ];
    let good: Vec<StepRequest<'_>> =
        all[8..].iter().map(|one| StepRequest::new(one, StepKind::Answer(1, woman()))).collect();
    requests.extend(good.iter().cloned());
    let answers = send_concurrently(&server, &link, &requests).await;
    let found: Vec<(u16, &str)> =
        answers.iter().map(|one| (one.status, one.body["code"].as_str().unwrap_or_default())).collect();
    let wrong =
        [(409, "session-ended"), (200, ""), (409, "attempt-conflict"), (404, "not-found"), (409, "page-not-due")];
    assert_eq!(found[..5], wrong);
    assert_eq!(found[5..8], [(422, "validation-failed"), (409, "page-not-due"), (200, "")]);
    assert!(found[8..].iter().all(|(status, _)| *status == 200), "{found:?}");
    assert!(count_commits(&server, &good).await <= 2, "the valid steps share a commit all the same");
    assert_eq!(author.bucket_counts(survey, "women").await.0, 2 + good.len() as i64);
    server.assert_places_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_the_database_rejects_fails_alone() {
    let server = start_server().await;
    let author = server.author("acme");
    let (survey, link) = survey(&author, 100).await;
    let all = respondents(&author, &link, QUEUE_MAX).await;
    let refuse = format!(
        "CREATE FUNCTION surveys.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON surveys.answer FOR EACH ROW WHEN (NEW.session_id = '{}')
         EXECUTE FUNCTION surveys.refuse()",
        all[5].session
    );
    server.owner.batch_execute(&refuse).await.expect("a trigger");
    let requests: Vec<StepRequest<'_>> =
        all.iter().map(|one| StepRequest::new(one, StepKind::Answer(1, woman()))).collect();
    let statuses: Vec<u16> = send_concurrently(&server, &link, &requests).await.iter().map(|one| one.status).collect();
    let expected: Vec<u16> = (0..QUEUE_MAX).map(|number| if number == 5 { 500 } else { 200 }).collect();
    assert_eq!(statuses, expected);
    assert_eq!(author.bucket_counts(survey, "women").await.0, QUEUE_MAX as i64 - 1);
    let published: i64 = server.published_count("quota.reserved.v1").await;
    assert_eq!(published, QUEUE_MAX as i64 - 1, "the rejected step publishes nothing, and no step publishes twice");
    server.assert_places_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_of_one_session_run_one_after_the_other() {
    let server = start_server().await;
    let author = server.author("acme");
    let (survey, link) = survey(&author, 100).await;
    let all = respondents(&author, &link, QUEUE_MAX / 2).await;
    let man = json!({"sex": "m", "region": "north"});
    let requests: Vec<StepRequest<'_>> = all
        .iter()
        .flat_map(|one| {
            [
                StepRequest::new(one, StepKind::Answer(1, woman())),
                StepRequest::new(one, StepKind::Answer(2, man.clone())),
            ]
        })
        .collect();
    let answers = send_concurrently(&server, &link, &requests).await;
    for (pair, one) in answers.chunks(2).zip(&all) {
        // The network decides which of them arrives first.
        assert!([200, 409].contains(&pair[0].status) && pair[1].status == 200, "{pair:?}");
        assert_eq!(one.view().await.with_status(200)["answers"]["only"], man);
    }
    assert_eq!(author.bucket_counts(survey, "women").await.0, 0, "places that were reserved first were released");
    let taken = answers.iter().filter(|one| one.status == 200).count() as i64;
    let others: i64 = 3 + QUEUE_MAX as i64 - requests.len() as i64;
    assert_eq!(server.published_count("answer.upserted.v1").await, taken + others);
    server.assert_places_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_request_does_not_cancel_other_steps() {
    let server = start_server().await;
    let author = server.author("acme");
    let (survey, link) = survey(&author, 100).await;
    let all = respondents(&author, &link, QUEUE_MAX).await;
    let requests: Vec<StepRequest<'_>> =
        all.iter().map(|one| StepRequest::new(one, StepKind::Answer(1, woman()))).collect();
    // The last session in lock order is locked, so that its group is blocked in the middle of its transaction.
    let (cancelled, last) = (&requests[0], &requests[QUEUE_MAX - 1]);
    let locking = server.platform.database().owner().await;
    let lock =
        format!("BEGIN; SELECT 1 FROM surveys.session WHERE session_id = '{}' FOR UPDATE", last.respondent.session);
    locking.batch_execute(&lock).await.expect("the session can be locked");
    let in_flight =
        "SELECT count(*) FROM (SELECT 1 FROM surveys.session WHERE session_id = $1 FOR UPDATE SKIP LOCKED) s";
    let cancelling = async {
        eventually("the step is in flight", || async {
            (server.query_value::<i64>(in_flight, &[&cancelled.respondent.session]).await == 0).then_some(())
        })
        .await;
        cancelled.cancel.notify_one();
        locking.batch_execute("COMMIT").await.expect("the lock is released");
    };
    let (answers, ()) = tokio::join!(send_concurrently(&server, &link, &requests), cancelling);
    assert!(answers[1..].iter().all(|one| one.status == 200), "{answers:?}");
    eventually("all of them have their places, including the cancelled one", || async {
        (author.bucket_counts(survey, "women").await.0 == QUEUE_MAX as i64).then_some(())
    })
    .await;
    assert_eq!(cancelled.respondent.answer("only", 1, woman()).await.with_status(200)["next"], "complete");
    server.assert_places_consistent().await;
}
