//! Cancelling one message: it is not handled, becomes a dead letter, and holds nobody up.

use crate::{
    support::{
        GENEROUS, Probe, QUEUE, consumer, count, dead_letters, drained, effects, effects_reach, job, one_lane,
        platform, publish, quick, running,
    },
    triage_support::{deferred_reaches, failing_for, make_due, operator, requeue},
};
use onceward::{
    Consumer, Failure, LeasedHandler, Received, RetryPolicy, Tx,
    message_log::triage::{self, CancelOutcome, CancelledMessage},
    messaging::consumer::LeaseContext,
};
use onceward_testkit::{TestPlatform, eventually};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tokio_postgres::Client;
use uuid::Uuid;

/// Publishes messages of the key "k", each in a commit of its own.
async fn publish_keyed(platform: &TestPlatform, names: &[&str]) {
    for name in names {
        publish(platform.db(), "acme", [job("acme", name).ordered_by("k")]).await;
    }
}

async fn event_id(owner: &Client, name: &str) -> Uuid {
    let sql = "SELECT id FROM onceward.message_log WHERE payload->>'name' = $1 AND topic LIKE 'probe.events:%'";
    owner.query_one(sql, &[&name]).await.expect("it was published").get(0)
}

async fn cancel_id(platform: &TestPlatform, id: Uuid, rehearse: bool) -> Vec<CancelledMessage> {
    let readers = HashMap::from([(QUEUE.to_owned(), "probe".to_owned())]);
    triage::cancel(platform.db(), id, None, &readers, &operator(), rehearse).await.expect("it can be cancelled")
}

/// Cancels the message with this name and returns what became of it.
async fn cancel(platform: &TestPlatform, owner: &Client, name: &str) -> CancelledMessage {
    let mut all = cancel_id(platform, event_id(owner, name).await, false).await;
    assert_eq!(all.len(), 1, "it is in one queue: {all:?}");
    all.remove(0)
}

#[tokio::test]
async fn a_message_that_waits_in_the_log_is_not_handled_and_can_be_requeued() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe).dead_letters_hold_their_key()).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["first", "second", "third"]).await;
    let planned = cancel_id(&platform, event_id(&owner, "second").await, true).await;
    assert_eq!(planned[0].outcome, CancelOutcome::Cancelled);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.dead_letters").await, 0, "a rehearsal changes nothing");
    let cancelled = cancel(&platform, &owner, "second").await;
    assert_eq!((cancelled.outcome, cancelled.queue.as_str()), (CancelOutcome::Cancelled, QUEUE));
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].name.as_deref(), dead[0].reason.as_str()), (Some("second"), "cancelled"));
    let again = cancel(&platform, &owner, "second").await;
    assert_eq!((again.outcome, again.letter), (CancelOutcome::AlreadyDead, cancelled.letter));

    platform.run_consumers();
    assert_eq!(effects_reach(&owner, 2).await, ["first", "third"]);
    drained(&owner).await;
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.cancelled").await, 0, "the turn has passed it");
    let acts = triage::history(platform.db(), cancelled.letter, None, 10).await.unwrap();
    assert_eq!((acts[0].act.as_str(), acts[0].actor.as_str()), ("cancelled", "olga"));
    let audited = "SELECT count(*) FROM audit.entry WHERE event_type = 'message_cancelled' AND tenant_id = 'acme'";
    assert_eq!(count(&owner, audited).await, 1);

    requeue(platform.db(), &[cancelled.letter.unwrap()]).await;
    assert_eq!(effects_reach(&owner, 3).await, ["first", "third", "second"]);
    drained(&owner).await;
}

/// No turn has passed it, so it returns to its very place: ahead of it are messages that are still unread.
#[tokio::test]
async fn a_cancelled_message_that_is_requeued_before_it_was_read_keeps_its_place() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["first", "second", "third"]).await;
    let letter = cancel(&platform, &owner, "second").await.letter.unwrap();
    let outcome = requeue(platform.db(), &[letter]).await.remove(0);
    assert_eq!((outcome.refusal, outcome.wait_ms), (None, Some(0)));
    platform.run_consumers();
    assert_eq!(effects_reach(&owner, 3).await, ["first", "second", "third"]);
    drained(&owner).await;
}

#[tokio::test]
async fn a_message_without_a_key_is_cancelled_alone() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", ["a", "b", "c"].map(|name| job("acme", name))).await;
    publish(platform.db(), "bolt", [job("bolt", "d")]).await;
    for name in ["c", "a"] {
        assert_eq!(cancel(&platform, &owner, name).await.outcome, CancelOutcome::Cancelled);
    }
    platform.run_consumers();
    let mut done = effects_reach(&owner, 2).await;
    done.sort();
    assert_eq!(done, ["b", "d"]);
    drained(&owner).await;
}

#[tokio::test]
async fn a_message_that_waits_for_its_retry_is_cancelled_and_its_followers_continue() {
    let (probe, _calls) = Probe::new(|_, seen| {
        let fails = seen.name == "failing";
        Box::pin(async move { if fails { Err(Failure::transient("down")) } else { Ok(()) } })
    });
    let slowly = RetryPolicy::exponential(3).initial_ms(3_600_000).cap_ms(3_600_000);
    let platform = running(one_lane(), consumer(probe).retry(slowly).dead_letters_hold_their_key()).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["failing", "parked", "last"]).await;
    deferred_reaches(&owner, "parked", 2).await;
    // One that stands behind another releases nobody.
    assert_eq!(cancel(&platform, &owner, "parked").await.outcome, CancelOutcome::Cancelled);
    deferred_reaches(&owner, "parked", 1).await;
    assert_eq!(effects(&owner).await, [""; 0]);
    assert_eq!(cancel(&platform, &owner, "failing").await.outcome, CancelOutcome::Cancelled);
    assert_eq!(effects_reach(&owner, 1).await, ["last"]);
    drained(&owner).await;
    let dead = dead_letters(&owner, 2).await;
    assert_eq!(dead.iter().map(|one| one.attempts).collect::<Vec<_>>(), [0, 1]);
}

#[tokio::test]
async fn a_delayed_message_is_cancelled() {
    let (probe, _calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "later").ordered_by("k").after(Duration::from_secs(3600))]).await;
    assert_eq!(cancel(&platform, &owner, "later").await.outcome, CancelOutcome::Cancelled);
    make_due(&owner).await;
    publish_keyed(&platform, &["next"]).await;
    assert_eq!(effects_reach(&owner, 1).await, ["next"]);
    drained(&owner).await;
}

#[tokio::test]
async fn what_was_handled_or_never_published_or_is_dead_cannot_be_cancelled() {
    let (probe, ..) = failing_for(|name| name == "bad");
    let platform = running(one_lane(), consumer(probe).dead_letters_hold_their_key()).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["good", "bad"]).await;
    deferred_reaches(&owner, "held", 1).await;
    assert_eq!(cancel(&platform, &owner, "good").await.outcome, CancelOutcome::Handled);
    assert_eq!(cancel(&platform, &owner, "bad").await.outcome, CancelOutcome::AlreadyDead);
    assert_eq!(cancel_id(&platform, Uuid::now_v7(), false).await, []);
    assert_eq!(cancel_id(&platform, Uuid::from_u128(7), false).await, []);
    let (good, readers) = (event_id(&owner, "good").await, HashMap::new());
    let elsewhere = triage::cancel(platform.db(), good, Some("other.queue"), &readers, &operator(), false).await;
    assert_eq!(elsewhere.expect("it can be asked"), []);
    assert_eq!(count(&owner, "SELECT count(*) FROM audit.entry").await, 0);
}

/// The cancellation waits for the turn, and then finds what the turn left.
#[tokio::test]
async fn a_message_in_a_running_turn_is_cancelled_only_if_the_turn_did_not_handle_it() {
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let (probe, mut calls) = Probe::new(move |_, _| {
        let gate = opened.clone();
        Box::pin(async move {
            gate.acquire().await.expect("never closed").forget();
            Ok(())
        })
    });
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["running"]).await;
    calls.next().await;
    publish_keyed(&platform, &["waiting"]).await;
    let waiting = async {
        let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        eventually("the cancellations wait", || async { (count(&owner, waits).await == 2).then_some(()) }).await;
        gate.add_permits(10);
    };
    let (running, waiting, ()) =
        tokio::join!(cancel(&platform, &owner, "running"), cancel(&platform, &owner, "waiting"), waiting);
    assert_eq!(running.outcome, CancelOutcome::Handled);
    let expected = match waiting.outcome {
        CancelOutcome::Cancelled => vec!["running"],
        // A worker was faster and took the next turn.
        CancelOutcome::Handled => vec!["running", "waiting"],
        other => panic!("{other:?}"),
    };
    drained(&owner).await;
    assert_eq!(effects(&owner).await, expected);
}

/// Waits until the test opens the gate.
#[derive(Clone)]
struct Gated(Arc<Semaphore>);

impl LeasedHandler for Gated {
    type Event = crate::support::Job;
    type Work = ();

    async fn perform(&self, _lease: &LeaseContext, _received: &Received<'_, Self::Event>) -> Result<(), Failure> {
        self.0.acquire().await.expect("never closed").forget();
        Ok(())
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Self::Event>, (): &()) -> Result<(), Failure> {
        crate::support::write_effect(tx, &crate::support::HandlerCall::of(received, &received.event)).await
    }
}

#[tokio::test]
async fn a_leased_message_is_in_flight_and_one_behind_it_is_cancelled() {
    let gate = Arc::new(Semaphore::new(0));
    let consumer = Consumer::leased("probe", QUEUE).on(Gated(gate.clone())).retry(quick(3)).budget(GENEROUS);
    let platform = running(one_lane(), consumer.lease(Duration::from_secs(30))).await;
    let owner = platform.database().owner().await;
    publish_keyed(&platform, &["leased", "behind", "last"]).await;
    deferred_reaches(&owner, "leased", 1).await;
    deferred_reaches(&owner, "parked", 2).await;
    assert_eq!(cancel(&platform, &owner, "leased").await.outcome, CancelOutcome::InFlight);
    assert_eq!(cancel(&platform, &owner, "behind").await.outcome, CancelOutcome::Cancelled);
    gate.add_permits(10);
    assert_eq!(effects_reach(&owner, 2).await, ["leased", "last"]);
    drained(&owner).await;
}
