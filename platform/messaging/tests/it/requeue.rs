//! Requeuing dead letters: once, at a limited rate, and never those that cannot be handled.

use crate::{
    support::{
        Probe, consumer, count, dead_letters, drained, effects, effects_reach, enqueue, job, one_lane, publish,
        publish_names, quick, running,
    },
    triage_support::{
        all_dead_letters, dead_letters_named, failing_handler, make_due, operator, requeue, requeue_with,
    },
};
use onceward::{
    Failure,
    message_log::triage::{self, DeadLetterFilter, DeadLetterStatus, RequeueOptions, TriageRefusal},
};
use onceward_testkit::eventually;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_requeued_letter_gets_all_its_attempts_again_and_leaves_a_history() {
    let (probe, mut calls, repair) = failing_handler();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    dead_letters(&owner, 1).await;
    calls.drain();
    repair.done();
    let ids = all_dead_letters(platform.db()).await;
    let outcomes = requeue(platform.db(), &ids).await;
    assert_eq!((outcomes[0].refusal, outcomes[0].wait_ms, outcomes[0].requeues), (None, Some(0), Some(0)));
    assert_eq!(outcomes[0].event_type.as_deref(), Some("probe.job.v1"));
    assert_eq!(effects_reach(&owner, 1).await, ["a"]);
    assert_eq!(calls.next().await.attempt, 1);
    let acts = triage::history(platform.db(), Some(ids[0]), None, 10).await.unwrap();
    assert_eq!((acts.len(), acts[0].act.as_str(), acts[0].actor.as_str()), (1, "requeued", "olga"));
    assert_eq!(acts[0].why, "the handler is repaired");
    assert_eq!(all_dead_letters(platform.db()).await, [] as [i64; 0]);
}

#[tokio::test]
async fn a_message_that_dies_again_becomes_a_new_letter_and_waits_longer_each_time() {
    let (probe, _calls, _never) = failing_handler();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a").ordered_by("k")]).await;
    for (nth, wait_ms) in [0, 2_000, 4_000, 8_000].into_iter().enumerate() {
        dead_letters(&owner, nth + 1).await;
        let ids = all_dead_letters(platform.db()).await;
        assert_eq!(ids.len(), 1);
        let letter = triage::details(platform.db(), &ids).await.unwrap().remove(0);
        assert_eq!((letter.requeues, letter.summary.attempts), (i32::try_from(nth).unwrap(), 1));
        let outcomes = requeue(platform.db(), &ids).await;
        assert_eq!((outcomes[0].wait_ms, outcomes[0].requeues), (Some(wait_ms), Some(letter.requeues)));
        make_due(&owner).await;
    }
    dead_letters(&owner, 5).await;
    let status = "SELECT count(*) FROM onceward.dead_letters WHERE status = 'requeued'";
    assert_eq!(count(&owner, status).await, 4);
    let placed =
        "SELECT count(DISTINCT (lane_id, seq)) FROM onceward.dead_letters WHERE lane_id IS NOT NULL AND seq > 0";
    assert_eq!(count(&owner, placed).await, 1, "it keeps its place");
}

#[tokio::test]
async fn requeued_letters_become_due_one_after_the_other() {
    let (probe, _calls, _never) = failing_handler();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "b", "c"]).await;
    dead_letters(&owner, 3).await;
    let ids = all_dead_letters(platform.db()).await;
    let waits = async |options: RequeueOptions| {
        let planned = triage::plan(platform.db(), &ids, &options).await.unwrap();
        planned.iter().map(|outcome| outcome.wait_ms.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(waits(RequeueOptions::default()).await, [0, 20, 40]);
    let spread = RequeueOptions { spread: Some(Duration::from_secs(30)), ..RequeueOptions::default() };
    assert_eq!(waits(spread).await, [0, 10_000, 20_000]);
    let delayed = RequeueOptions { delay: Duration::from_secs(5), ..spread };
    assert_eq!(waits(delayed).await, [5_000, 15_000, 25_000]);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.deferred").await, 0, "a plan changes nothing");
    requeue_with(platform.db(), &ids, &delayed).await;
    let due = "SELECT count(*) FROM onceward.deferred WHERE due_at > clock_timestamp() AND state = 'retry'
               AND attempts = 0 AND last_error IS NULL";
    assert_eq!(count(&owner, due).await, 3);
}

#[tokio::test]
async fn concurrent_operators_requeue_each_letter_once() {
    let (probe, _calls, repair) = failing_handler();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    // Without keys, so that no lane is locked and the dead letters themselves must be.
    publish(platform.db(), "acme", (0..60).map(|n| job("acme", &format!("job {n}")))).await;
    dead_letters(&owner, 60).await;
    repair.done();
    let ids = all_dead_letters(platform.db()).await;
    let backwards: Vec<i64> = ids.iter().rev().copied().collect();
    // Both wait for a third transaction, so that they continue at the same moment.
    let watcher = platform.database().owner().await;
    owner.batch_execute("BEGIN; SELECT FROM onceward.dead_letters FOR UPDATE").await.expect("all are locked");
    let released = async {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("both wait", || async { (count(&watcher, waiting).await == 2).then_some(()) }).await;
        owner.batch_execute("COMMIT").await.expect("they are released");
    };
    let (one, other, ()) = tokio::join!(requeue(platform.db(), &ids), requeue(platform.db(), &backwards), released);
    let outcomes: Vec<_> = one.iter().chain(&other).collect();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_done()).count(), 60);
    assert_eq!(outcomes.iter().filter(|outcome| outcome.refusal == Some(TriageRefusal::Requeued)).count(), 60);
    effects_reach(&owner, 60).await;
    drained(&owner).await;
    assert_eq!(effects(&owner).await.len(), 60);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.dead_letter_act").await, 60);
}

#[tokio::test]
async fn letters_that_cannot_be_requeued_are_refused_with_a_reason() {
    let (probe, _calls, _never) = failing_handler();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "b", "elsewhere", "good"]).await;
    dead_letters(&owner, 4).await;
    owner
        .batch_execute(
            r#"UPDATE onceward.dead_letters SET message = '{"bodyHex": "00"}' WHERE message->'payload'->>'name' = 'a';
               UPDATE onceward.dead_letters SET queue = 'gone', lane_id = NULL WHERE message->'payload'->>'name' = 'elsewhere'"#,
        )
        .await
        .expect("the owner may");
    let ids = all_dead_letters(platform.db()).await;
    let quarantined = dead_letters_named(&owner, &["b"]).await;
    let put_away = triage::quarantine(platform.db(), &quarantined, "poison", &operator(), false, |_| {}).await;
    put_away.expect("it is quarantined");
    let asked: Vec<i64> = ids.iter().copied().chain([4711]).collect();
    let mut refusals: Vec<_> = requeue(platform.db(), &asked)
        .await
        .iter()
        .map(|outcome| outcome.refusal.map(|refusal| refusal.to_string()))
        .collect();
    refusals.sort();
    let mut expected: Vec<Option<String>> =
        [TriageRefusal::Missing, TriageRefusal::NoQueue, TriageRefusal::Quarantined, TriageRefusal::Unreadable]
            .map(|r| Some(r.to_string()))
            .into();
    expected.push(None);
    expected.sort();
    assert_eq!(refusals, expected);
    let forced = RequeueOptions { force: true, ..RequeueOptions::default() };
    assert!(requeue_with(platform.db(), &quarantined, &forced).await[0].is_done());
}

#[tokio::test]
async fn the_queues_time_to_live_restarts_with_a_requeue() {
    let (probe, mut calls) = Probe::good();
    let platform = running(one_lane().ttl_ms(60_000), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let old = "SELECT onceward.defer(jsonb_build_array(jsonb_build_object('lane_id',
                   onceward.lane_of((SELECT id FROM onceward.queue WHERE name = 'probe.work'), 'acme', 0::smallint, 0::smallint),
                   'seq', 1, 'state', 'retry', 'due_in_ms', 0, 'blocks', true, 'attempts', 0, 'lease', 0,
                   'created_at', now() - interval '1 hour', 'message', jsonb_build_object('id', gen_random_uuid(),
                   'event_type', 'probe.job', 'version', 1, 'topic', 'probe.events:tenant.acme.job', 'correlation_id', 'c',
                   'payload', jsonb_build_object('name', 'old')))))";
    owner.execute(old, &[]).await.expect("it is deferred");
    assert_eq!(dead_letters(&owner, 1).await[0].reason, "expired");
    requeue(platform.db(), &all_dead_letters(platform.db()).await).await;
    assert_eq!(calls.next().await.name, "old");
    assert_eq!(effects_reach(&owner, 1).await, ["old"]);
}

#[tokio::test]
async fn a_quarantined_letter_is_not_requeued_or_listed_as_open() {
    let (probe, _calls, _never) = failing_handler();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "b"]).await;
    dead_letters(&owner, 2).await;
    let ids = all_dead_letters(platform.db()).await;
    let mut outcomes = Vec::new();
    for rehearse in [true, false, false] {
        let done = |said| outcomes.push(said);
        triage::quarantine(platform.db(), &ids[..1], "poison", &operator(), rehearse, done).await.unwrap();
    }
    let refusals: Vec<_> = outcomes.iter().map(|outcomes| outcomes[0].refusal).collect();
    assert_eq!(refusals, [None, None, Some(TriageRefusal::Quarantined)]);
    assert_eq!(all_dead_letters(platform.db()).await, ids[1..]);
    let quarantined = DeadLetterFilter { status: Some(DeadLetterStatus::Quarantined), ..DeadLetterFilter::default() };
    let listed = triage::list(platform.db(), &quarantined, None, 10).await.unwrap();
    assert_eq!((listed.len(), listed[0].id, listed[0].tag.as_deref()), (1, ids[0], Some("poison")));
    let acts = triage::history(platform.db(), None, None, 10).await.unwrap();
    assert_eq!((acts.len(), acts[0].act.as_str(), acts[0].tag.as_deref()), (1, "quarantined", Some("poison")));
    let figures = onceward::message_log::stats::queue_stats(platform.db()).await.unwrap();
    assert_eq!(figures.iter().map(|queue| queue.dead).sum::<i64>(), 1);
}

#[tokio::test]
async fn the_history_is_append_only_and_a_tenant_sees_only_its_own() {
    let (probe, _calls, _never) = failing_handler();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    publish_names(platform.db(), "bolt", &["b"]).await;
    dead_letters(&owner, 2).await;
    let ids = all_dead_letters(platform.db()).await;
    triage::quarantine(platform.db(), &ids, "poison", &operator(), false, |_| {}).await.unwrap();
    for rewrite in [
        "UPDATE onceward.dead_letter_act SET why = ''",
        "DELETE FROM onceward.dead_letter_act WHERE false",
        "TRUNCATE onceward.dead_letter_act",
        "SET session_replication_role = replica; DELETE FROM onceward.dead_letter_act",
    ] {
        let refused = owner.batch_execute(rewrite).await.expect_err(rewrite);
        assert_eq!(refused.code().map(|code| code.code()), Some("OW003"), "{rewrite}");
    }
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.dead_letter_act").await, 2);
    let tx = platform.db().begin(platform.scope("bolt")).await.unwrap();
    let seen = async |sql: &'static str| tx.query(sql, &[]).await.unwrap().len();
    assert_eq!(seen("SELECT FROM onceward.find_dead_letters('{}', NULL, 100) WHERE tenant_id = 'bolt'").await, 1);
    assert_eq!(seen("SELECT FROM onceward.find_dead_letters('{}', NULL, 100)").await, 1);
    assert_eq!(seen("SELECT FROM onceward.dead_letter_acts(NULL, NULL, 100)").await, 1);
    assert_eq!(seen("SELECT FROM onceward.dead_letters_in_full('{1,2,3,4}')").await, 1);
    let refused = tx.query("SELECT FROM onceward.dead_letter_act", &[]).await;
    assert!(refused.is_err(), "the application role reads the history by its function only");
}

#[tokio::test]
async fn letters_are_found_by_every_filter_and_page_by_page() {
    let (probe, _calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            match seen.tenant.as_str() {
                "acme" => Err(Failure::permanent("no")),
                _ => Err(Failure::transient("not now")),
            }
        })
    });
    let platform = running(one_lane(), consumer(probe).retry(quick(1))).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "b", "c"]).await;
    publish_names(platform.db(), "bolt", &["d"]).await;
    enqueue(&owner, "acme", "probe.job.v1", &json!({"number": 1})).await;
    dead_letters(&owner, 5).await;
    let owner_sql = "UPDATE onceward.dead_letters SET dead_at = now() - interval '1 day' WHERE tenant_id = 'bolt'";
    owner.execute(owner_sql, &[]).await.unwrap();
    let found = async |filter: DeadLetterFilter| triage::list(platform.db(), &filter, None, 100).await.unwrap().len();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(found(DeadLetterFilter::default()).await, 5);
    assert_eq!(found(DeadLetterFilter { queue: text("probe.work"), ..DeadLetterFilter::default() }).await, 5);
    assert_eq!(found(DeadLetterFilter { queue: text("other"), ..DeadLetterFilter::default() }).await, 0);
    assert_eq!(found(DeadLetterFilter { tenant: text("acme"), ..DeadLetterFilter::default() }).await, 4);
    assert_eq!(found(DeadLetterFilter { event_type: text("probe.job"), ..DeadLetterFilter::default() }).await, 5);
    assert_eq!(found(DeadLetterFilter { event_type: text("probe.job.v2"), ..DeadLetterFilter::default() }).await, 0);
    assert_eq!(found(DeadLetterFilter { reason: text("schema_violation"), ..DeadLetterFilter::default() }).await, 1);
    assert_eq!(found(DeadLetterFilter { reason: text("attempts_exhausted"), ..DeadLetterFilter::default() }).await, 1);
    let hour = Some(Duration::from_secs(3600));
    assert_eq!(found(DeadLetterFilter { older_than: hour, ..DeadLetterFilter::default() }).await, 1);
    assert_eq!(
        found(DeadLetterFilter { newer_than: hour, tenant: text("bolt"), ..DeadLetterFilter::default() }).await,
        0
    );
    assert_eq!(
        found(DeadLetterFilter { status: Some(DeadLetterStatus::Requeued), ..DeadLetterFilter::default() }).await,
        0
    );
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = triage::list(platform.db(), &DeadLetterFilter::default(), after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        pages.push(page);
    }
    let times: Vec<_> = pages.iter().flatten().map(|letter| (letter.dead_at, letter.id)).collect();
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert!(times.is_sorted_by(|earlier, later| earlier > later), "the latest first: {times:?}");
}
