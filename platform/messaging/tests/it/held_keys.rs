//! Dead letters that hold their keys: followers wait until the letter is requeued or released.

use crate::{
    support::{
        Calls, GENEROUS, HandlerCall, Job, Probe, QUEUE, consumer, count, dead_letters, drained, effects,
        effects_reach, job, one_lane, platform, publish, quick, running, service, write_effect,
    },
    triage_support::{
        Repair, dead_letters_named, deferred_reaches, failing_for, operator, release, requeue, requeue_with,
    },
};
use onceward::{
    Consumer, Failure, LeasedHandler, Platform, Received, Tx,
    message_log::{
        stats,
        triage::{self, RequeueOptions, TriageRefusal},
    },
    messaging::{TransactionalConsumer, consumer::LeaseContext},
};
use onceward_testkit::{TestPlatform, eventually};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_postgres::Client;

/// A consumer whose dead letters hold their keys; messages whose names begin with "bad" fail until it is repaired.
fn holding() -> (TransactionalConsumer, Calls, Repair) {
    let (probe, calls, repair) = failing_for(|name| name.starts_with("bad"));
    (consumer(probe).dead_letters_hold_their_key(), calls, repair)
}

/// Publishes messages of the key "k", each in a commit of its own.
async fn publish_keyed(platform: &TestPlatform, names: &[&str]) {
    for name in names {
        publish(platform.db(), "acme", [job("acme", name).ordered_by("k")]).await;
    }
}

async fn followers_of(platform: &TestPlatform, letter: i64) -> Option<i64> {
    triage::followers(platform.db(), letter, 3).await.expect("it can be read").map(|(count, _)| count)
}

/// Waits until every message published so far was read.
async fn all_read(owner: &Client) {
    eventually("everything is read", || async {
        (count(owner, "SELECT sum(depth)::bigint FROM onceward.queue_stats(1000)").await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn followers_wait_while_other_keys_and_tenants_go_on_and_continue_after_a_requeue() {
    let (consumer, _calls, repair) = holding();
    let mut platform = platform(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    // One turn contains the letter and messages behind it; others are published after its death.
    publish_keyed(&platform, &["first", "bad", "second", "third"]).await;
    publish(platform.db(), "acme", [job("acme", "other key").ordered_by("l"), job("acme", "no key")]).await;
    platform.run_consumers();
    dead_letters(&owner, 1).await;
    publish_keyed(&platform, &["fourth"]).await;
    publish(platform.db(), "bolt", [job("bolt", "other tenant").ordered_by("k")]).await;
    effects_reach(&owner, 4).await;
    deferred_reaches(&owner, "parked", 3).await;
    let mut done = effects(&owner).await;
    done.sort();
    assert_eq!(done, ["first", "no key", "other key", "other tenant"]);

    let letter = dead_letters_named(&owner, &["bad"]).await[0];
    let listed = triage::details(platform.db(), &[letter]).await.unwrap().remove(0);
    assert!(listed.summary.holds_key);
    let (waiting, first) = triage::followers(platform.db(), letter, 2).await.unwrap().expect("it holds its key");
    assert_eq!((waiting, first.len()), (3, 2));
    let held = stats::held_keys(platform.db()).await.unwrap();
    assert_eq!((held[0].queue.as_str(), held[0].keys, held.len()), (QUEUE, 1, 1));

    repair.done();
    let outcomes = requeue(platform.db(), &[letter]).await;
    assert_eq!(outcomes[0].wait_ms, Some(0), "nothing is before it");
    assert_eq!(effects_reach(&owner, 8).await[4..], ["bad", "second", "third", "fourth"]);
    drained(&owner).await;
    assert_eq!(stats::held_keys(platform.db()).await.unwrap(), []);
}

#[tokio::test]
async fn followers_of_a_released_letter_continue_in_order_without_it() {
    let (consumer, _calls, repair) = holding();
    let platform = running(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["bad", "second", "third"]).await;
    deferred_reaches(&owner, "parked", 2).await;
    let ids = dead_letters_named(&owner, &["bad"]).await;
    let planned = release(platform.db(), &ids, true).await;
    assert_eq!((planned[0].refusal, planned[0].followers), (None, Some(2)));
    assert_eq!(followers_of(&platform, ids[0]).await, Some(2), "a rehearsal changes nothing");

    release(platform.db(), &ids, false).await;
    assert_eq!(effects_reach(&owner, 2).await, ["second", "third"]);
    drained(&owner).await;
    let letter = triage::details(platform.db(), &ids).await.unwrap().remove(0);
    assert_eq!((letter.summary.status.as_str(), letter.summary.holds_key), ("dead", false));
    let again = release(platform.db(), &[ids[0], 99_999], false).await;
    assert_eq!(
        again.iter().map(|one| one.refusal).collect::<Vec<_>>(),
        [Some(TriageRefusal::NotHolding), Some(TriageRefusal::Missing)]
    );
    let acts = triage::history(platform.db(), Some(ids[0]), None, 10).await.unwrap();
    assert_eq!(acts.iter().map(|act| act.act.as_str()).collect::<Vec<_>>(), ["released"]);
    let audited = "SELECT count(*) FROM audit.entry WHERE event_type = 'dead_letter_released'";
    assert_eq!(count(&owner, audited).await, 1);

    // It is an ordinary letter now: it may be requeued, and new messages do not wait for it.
    publish_keyed(&platform, &["fourth"]).await;
    effects_reach(&owner, 3).await;
    repair.done();
    requeue(platform.db(), &ids).await;
    assert_eq!(effects_reach(&owner, 4).await, ["second", "third", "fourth", "bad"]);
}

#[tokio::test]
async fn a_letter_that_is_requeued_and_dies_again_holds_its_key_again() {
    let (consumer, _calls, repair) = holding();
    let platform = running(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["bad", "second"]).await;
    deferred_reaches(&owner, "parked", 1).await;
    let first = dead_letters_named(&owner, &["bad"]).await[0];
    requeue(platform.db(), &[first]).await;
    dead_letters(&owner, 2).await;
    let second = dead_letters_named(&owner, &["bad"]).await[0];
    assert_ne!(first, second);
    assert_eq!(followers_of(&platform, first).await, None);
    assert_eq!(followers_of(&platform, second).await, Some(1));
    repair.done();
    let now = RequeueOptions::default();
    requeue_with(platform.db(), &[second], &now).await;
    // A letter that was requeued before waits longer.
    crate::triage_support::make_due(&owner).await;
    assert_eq!(effects_reach(&owner, 2).await, ["bad", "second"]);
    drained(&owner).await;
}

/// The second letter dies when the first is released, and then holds the rest.
#[tokio::test]
async fn two_letters_of_a_key_are_requeued_in_any_order_and_handled_in_theirs() {
    let (consumer, _calls, repair) = holding();
    let platform = running(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["bad 1", "good 2", "bad 3", "good 4"]).await;
    deferred_reaches(&owner, "parked", 3).await;
    let first = dead_letters_named(&owner, &["bad 1"]).await[0];
    release(platform.db(), &[first], false).await;
    dead_letters(&owner, 2).await;
    let second = dead_letters_named(&owner, &["bad 3"]).await[0];
    assert_eq!(effects(&owner).await, ["good 2"]);
    assert_eq!(followers_of(&platform, second).await, Some(1));

    repair.done();
    // The first is put ahead of the one that still holds the key, and does not make it due.
    requeue(platform.db(), &[first]).await;
    assert_eq!(effects_reach(&owner, 2).await, ["good 2", "bad 1"]);
    assert_eq!(followers_of(&platform, second).await, Some(1));
    requeue(platform.db(), &[second]).await;
    assert_eq!(effects_reach(&owner, 4).await, ["good 2", "bad 1", "bad 3", "good 4"]);
    drained(&owner).await;
}

#[tokio::test]
async fn a_message_that_used_up_its_attempts_holds_its_key() {
    let (probe, _calls) = Probe::new(|_, seen| {
        let fails = seen.name == "bad";
        Box::pin(async move { if fails { Err(Failure::transient("still down")) } else { Ok(()) } })
    });
    let platform = running(one_lane(), consumer(probe).retry(quick(3)).dead_letters_hold_their_key()).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["bad", "second"]).await;
    assert_eq!(dead_letters(&owner, 1).await[0].reason, "attempts_exhausted");
    all_read(&owner).await;
    let letter = dead_letters_named(&owner, &["bad"]).await[0];
    assert_eq!(followers_of(&platform, letter).await, Some(1));
    release(platform.db(), &[letter], false).await;
    assert_eq!(effects_reach(&owner, 1).await, ["second"]);
}

#[tokio::test]
async fn an_unreadable_message_holds_its_key_too() {
    let (consumer, ..) = holding();
    let mut platform = platform(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["first"]).await;
    let unreadable =
        "SELECT onceward.append_one((SELECT topology_version FROM onceward.log_state), NULL, NULL, onceward.uuid_v7(),
        (SELECT onceward.lane_of(id, 'acme', 0::smallint, 0::smallint) FROM onceward.queue WHERE name = 'probe.work'),
        1::smallint, 'acme', 'probe.job', 'probe.events:tenant.acme.job', 'k', NULL, onceward.uuid_v7(),
        NULL, NULL, NULL, NULL, NULL, '{\"name\":\"\\ud800\"}', NULL, NULL)";
    owner.execute(unreadable, &[]).await.expect("it is appended");
    publish_keyed(&platform, &["second", "third"]).await;
    platform.run_consumers();
    deferred_reaches(&owner, "parked", 2).await;
    assert_eq!(effects(&owner).await, ["first"]);
    let letter: i64 = owner.query_one("SELECT id FROM onceward.dead_letters", &[]).await.unwrap().get(0);
    assert_eq!(requeue(platform.db(), &[letter]).await[0].refusal, Some(TriageRefusal::Unreadable));
    assert_eq!(followers_of(&platform, letter).await, Some(2), "a refusal changes nothing");
    release(platform.db(), &[letter], false).await;
    assert_eq!(effects_reach(&owner, 3).await, ["first", "second", "third"]);
}

#[tokio::test]
async fn a_quarantined_letter_still_holds_its_key() {
    let (consumer, ..) = holding();
    let platform = running(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["bad", "second"]).await;
    deferred_reaches(&owner, "parked", 1).await;
    let ids = dead_letters_named(&owner, &["bad"]).await;
    let mut outcomes = Vec::new();
    triage::quarantine(platform.db(), &ids, "poison", &operator(), false, |some| outcomes.extend(some)).await.unwrap();
    assert_eq!((outcomes[0].refusal, outcomes[0].followers), (None, Some(1)));
    release(platform.db(), &ids, false).await;
    assert_eq!(effects_reach(&owner, 1).await, ["second"]);
    let status = triage::details(platform.db(), &ids).await.unwrap().remove(0).summary.status;
    assert_eq!(status, "quarantined");
}

#[tokio::test]
async fn a_held_key_survives_a_restart() {
    let (consumer, _calls, repair) = holding();
    let platform = running(one_lane(), consumer.clone()).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["bad"]).await;
    dead_letters(&owner, 1).await;
    let (stopped, database) = platform.stop().await;
    assert!(stopped, "all tasks ended");
    let assembled = Platform::assemble(vec![service(one_lane(), consumer)]).expect("it is assembled");
    let mut platform = TestPlatform::on(database, assembled);
    publish_keyed(&platform, &["second"]).await;
    platform.run_consumers();
    deferred_reaches(&owner, "parked", 1).await;
    repair.done();
    requeue(platform.db(), &dead_letters_named(&owner, &["bad"]).await).await;
    assert_eq!(effects_reach(&owner, 2).await, ["bad", "second"]);
}

/// A worker whose transaction fails between the row that holds the key and the letter leaves neither.
#[tokio::test]
async fn the_letter_and_the_hold_are_one_commit() {
    let (consumer, mut calls, repair) = holding();
    let mut platform = platform(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    let crash = "CREATE SCHEMA crash;
        CREATE FUNCTION crash.fail() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'the worker dies here' USING ERRCODE = 'admin_shutdown'; END $$;
        CREATE TRIGGER crash BEFORE INSERT ON onceward.dead_letters FOR EACH ROW EXECUTE FUNCTION crash.fail();";
    owner.batch_execute(crash).await.expect("the owner may");
    publish_keyed(&platform, &["bad", "second"]).await;
    platform.run_consumers();
    assert_eq!(calls.names(2).await, ["bad", "bad"], "handled as a whole, and then alone");
    calls.next().await;
    let left = "SELECT (SELECT count(*) FROM onceward.dead_letters) + (SELECT count(*) FROM onceward.deferred)";
    assert_eq!(count(&owner, left).await, 0);
    owner.batch_execute("DROP TRIGGER crash ON onceward.dead_letters").await.expect("the owner may");
    deferred_reaches(&owner, "held", 1).await;
    deferred_reaches(&owner, "parked", 1).await;
    repair.done();
    requeue(platform.db(), &dead_letters_named(&owner, &["bad"]).await).await;
    assert_eq!(effects_reach(&owner, 2).await, ["bad", "second"]);
}

#[tokio::test]
async fn an_unordered_consumer_and_a_message_without_a_key_hold_nothing() {
    let (consumer, ..) = holding();
    let platform = running(one_lane(), consumer.unordered()).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["bad", "second"]).await;
    assert_eq!(effects_reach(&owner, 1).await, ["second"]);
    let letter = dead_letters_named(&owner, &["bad"]).await[0];
    assert_eq!(followers_of(&platform, letter).await, None);

    let (consumer, ..) = holding();
    let platform = running(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "bad"), job("acme", "second")]).await;
    assert_eq!(effects_reach(&owner, 1).await, ["second"]);
    let letter = dead_letters_named(&owner, &["bad"]).await[0];
    assert_eq!(followers_of(&platform, letter).await, None);
    drained(&owner).await;
}

/// A held letter is no waiting message: neither its age nor its number counts.
#[tokio::test]
async fn queue_figures_count_the_followers_and_not_the_held_letter() {
    let (consumer, ..) = holding();
    let platform = running(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["bad"]).await;
    deferred_reaches(&owner, "held", 1).await;
    let figures = || async {
        let all = stats::queue_stats(platform.db()).await.expect("figures");
        let queue = all.into_iter().find(|one| one.queue == QUEUE).expect("the queue");
        (queue.deferred, queue.dead, queue.lag_seconds > 0.0)
    };
    assert_eq!(figures().await, (0, 1, false));
    publish_keyed(&platform, &["second"]).await;
    deferred_reaches(&owner, "parked", 1).await;
    assert_eq!(figures().await, (1, 1, true));
}

/// Fails permanently for messages whose names begin with "bad", until it is repaired.
#[derive(Clone)]
struct ExternalCall {
    calls: mpsc::UnboundedSender<HandlerCall>,
    repair: Repair,
}

impl LeasedHandler for ExternalCall {
    type Event = Job;
    type Work = ();

    async fn perform(&self, _lease: &LeaseContext, received: &Received<'_, Job>) -> Result<(), Failure> {
        let _ = self.calls.send(HandlerCall::of(received, &received.event));
        match received.event.name.starts_with("bad") && !self.repair.is_done() {
            true => Err(Failure::permanent("broken")),
            false => Ok(()),
        }
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Job>, (): &()) -> Result<(), Failure> {
        write_effect(tx, &HandlerCall::of(received, &received.event)).await
    }
}

#[tokio::test]
async fn dead_letters_of_a_leased_consumer_hold_their_keys() {
    let (sender, _calls) = Calls::channel();
    let repair = Repair::default();
    let outside = ExternalCall { calls: sender, repair: repair.clone() };
    let consumer = Consumer::leased("probe", QUEUE).on(outside).retry(quick(3)).budget(GENEROUS);
    let consumer = consumer.lease(Duration::from_secs(30)).dead_letters_hold_their_key();
    let mut platform = platform(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["bad 1", "second", "third", "bad 4", "fifth"]).await;
    publish(platform.db(), "acme", [job("acme", "other key").ordered_by("l")]).await;
    platform.run_consumers();
    dead_letters(&owner, 1).await;
    assert_eq!(effects_reach(&owner, 1).await, ["other key"]);
    deferred_reaches(&owner, "parked", 4).await;
    let first = dead_letters_named(&owner, &["bad 1"]).await[0];
    assert_eq!(followers_of(&platform, first).await, Some(4));
    release(platform.db(), &[first], false).await;
    dead_letters(&owner, 2).await;
    assert_eq!(effects_reach(&owner, 3).await, ["other key", "second", "third"]);
    repair.done();
    requeue(platform.db(), &dead_letters_named(&owner, &["bad 4"]).await).await;
    assert_eq!(effects_reach(&owner, 5).await[3..], ["bad 4", "fifth"]);
    drained(&owner).await;
}

/// A release waits for the turn that is parking a follower, and then finds it.
#[tokio::test]
async fn a_release_finds_a_follower_that_a_running_turn_parks() {
    let (consumer, ..) = holding();
    let platform = running(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["bad"]).await;
    deferred_reaches(&owner, "held", 1).await;
    let letter = dead_letters_named(&owner, &["bad"]).await[0];
    // The test takes the place of a worker that has read the follower and has not committed yet.
    let mut client = platform.database().owner().await;
    let turn = client.transaction().await.unwrap();
    let lane: i32 = turn.query_one("SELECT lane_id FROM onceward.deferred", &[]).await.unwrap().get(0);
    turn.execute("SELECT pg_advisory_xact_lock(19012, $1)", &[&lane]).await.unwrap();
    publish_keyed(&platform, &["second"]).await;
    let (db, ids) = (platform.db().clone(), [letter]);
    let releasing = tokio::spawn(async move { release(&db, &ids, false).await });
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    eventually("the release waits", || async { (count(&owner, waits).await == 1).then_some(()) }).await;
    let park = "INSERT INTO onceward.deferred (lane_id, queue_id, seq, state, blocks, tenant_id, ordering_key, created_at, message)
                SELECT l.id, l.queue_id, m.seq, 'parked', true, m.tenant_id, m.ordering_key, m.created_at,
                       jsonb_build_object('id', m.id, 'event_type', m.event_type, 'version', m.version, 'topic', m.topic,
                           'correlation_id', m.correlation_uuid, 'payload', m.payload, 'occurred_at', m.created_at)
                FROM onceward.lane l JOIN onceward.message_log m ON m.lane_id = l.id
                WHERE l.id = $1 ORDER BY m.seq DESC LIMIT 1";
    turn.execute(park, &[&lane]).await.unwrap();
    let read =
        "UPDATE onceward.lane_turn SET last_seq = (SELECT max(seq) FROM onceward.message_log) WHERE lane_id = $1";
    turn.execute(read, &[&lane]).await.unwrap();
    turn.commit().await.unwrap();
    assert_eq!(releasing.await.expect("no panic")[0].followers, Some(1));
    assert_eq!(effects_reach(&owner, 1).await, ["second"]);
}
