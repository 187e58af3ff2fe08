//! Requeued dead letters keep the order of their keys.

use crate::{
    support::{
        GENEROUS, Probe, QUEUE, consumer, dead_letters, drained, effects, effects_reach, job, numbered, one_lane,
        platform, publish, quick, running,
    },
    triage_support::{
        all_dead_letters, dead_letters_named, deferred_reaches, failing_for, failing_handler, make_due, operator,
        requeue, requeue_with,
    },
};
use onceward::{
    Failure, Queue, RetryPolicy,
    message_log::triage::{self, RequeueOptions, TriageOutcome},
};
use rand::seq::SliceRandom;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

const LONG: Duration = Duration::from_secs(3600);

fn later() -> RequeueOptions {
    RequeueOptions { delay: LONG, ..RequeueOptions::default() }
}

#[tokio::test]
async fn letters_of_many_keys_and_tenants_are_handled_in_their_original_order() {
    let (probe, _calls, repair) = failing_handler();
    let queue = Queue::work(QUEUE).dead_letter("probe.dlq").shards(3);
    let mut platform = platform(queue, consumer(probe).concurrency(3)).await;
    let owner = platform.database().owner().await;
    let (mut second, _stop) = platform.another_instance();
    platform.run_consumers();
    second.run_consumers();
    for number in 1..=12 {
        for tenant in ["acme", "bolt"] {
            let keys = ["k1", "k2", "k3", "k4"].map(|key| format!("{tenant}-{key}"));
            publish(platform.db(), tenant, keys.iter().map(|key| numbered(tenant, key, number).ordered_by(key))).await;
        }
    }
    dead_letters(&owner, 96).await;
    repair.done();
    let mut ids = all_dead_letters(platform.db()).await;
    ids.shuffle(&mut rand::rng());
    let outcomes = requeue(platform.db(), &ids).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.wait_ms.is_some()).count(), 8, "one of each key becomes due");
    effects_reach(&owner, 96).await;
    drained(&owner).await;
    let mut numbers: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for row in owner.query("SELECT name, number FROM probe.effect ORDER BY id", &[]).await.unwrap() {
        numbers.entry(row.get(0)).or_default().push(row.get(1));
    }
    assert_eq!(numbers.len(), 8);
    assert!(numbers.values().all(|numbers| *numbers == (1..=12).collect::<Vec<_>>()), "{numbers:?}");
}

#[tokio::test]
async fn letters_of_a_key_keep_their_order_over_several_commits() {
    let (probe, _calls, repair) = failing_handler();
    let platform = running(one_lane(), consumer(probe).prefetch(500)).await;
    let owner = platform.database().owner().await;
    let count = i64::try_from(triage::CHUNK + 100).unwrap();
    publish(platform.db(), "acme", (1..=count).map(|number| numbered("acme", "m", number).ordered_by("k"))).await;
    dead_letters(&owner, triage::CHUNK + 100).await;
    repair.done();
    let in_order = "SELECT id FROM onceward.dead_letters ORDER BY (message->'payload'->>'number')::int";
    let in_order: Vec<i64> = owner.query(in_order, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let backwards: Vec<i64> = in_order.iter().rev().copied().collect();
    let mut commits: Vec<Vec<i64>> = Vec::new();
    let done = |outcomes: Vec<TriageOutcome>| commits.push(outcomes.iter().map(|outcome| outcome.id).collect());
    triage::requeue(platform.db(), &backwards, &RequeueOptions::default(), &operator(), done)
        .await
        .expect("they are requeued");
    assert_eq!(commits.iter().map(Vec::len).collect::<Vec<_>>(), [triage::CHUNK, 100]);
    assert_eq!(commits.concat(), in_order, "no letter is in an earlier commit than one before it");
    effects_reach(&owner, triage::CHUNK + 100).await;
    let rows = owner.query("SELECT number FROM probe.effect ORDER BY id", &[]).await.unwrap();
    let numbers: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
}

/// The first is dead; the second is retried in an hour; the third stands behind it.
#[tokio::test]
async fn later_messages_that_still_wait_follow_a_requeued_letter() {
    let repair = crate::triage_support::Repair::default();
    let repaired = repair.clone();
    let (probe, _calls) = Probe::new(move |_, seen| {
        let repaired = repaired.is_done();
        Box::pin(async move {
            match seen.name.as_str() {
                _ if repaired => Ok(()),
                "first" => Err(Failure::permanent("broken")),
                _ => Err(Failure::transient("where is the first?")),
            }
        })
    });
    let slowly = RetryPolicy::exponential(3).initial_ms(3_600_000).cap_ms(3_600_000);
    let platform = running(one_lane(), consumer(probe).retry(slowly)).await;
    let owner = platform.database().owner().await;
    for name in ["first", "second", "third"] {
        publish(platform.db(), "acme", [job("acme", name).ordered_by("k")]).await;
    }
    deferred_reaches(&owner, "parked", 1).await;
    repair.done();
    let ids = dead_letters_named(&owner, &["first"]).await;
    let planned = triage::plan(platform.db(), &ids, &RequeueOptions::default()).await.unwrap();
    assert_eq!(planned[0].wait_ms, Some(0), "nothing is before it");
    requeue(platform.db(), &ids).await;
    assert_eq!(effects_reach(&owner, 3).await, ["first", "second", "third"]);
    drained(&owner).await;
    let attempts = owner.query("SELECT attempt FROM probe.effect ORDER BY id", &[]).await.unwrap();
    let attempts: Vec<i32> = attempts.iter().map(|row| row.get(0)).collect();
    assert_eq!(attempts, [1, 2, 1], "the letter starts again, the second one does not");
}

#[tokio::test]
async fn earlier_messages_that_still_wait_precede_a_requeued_letter() {
    let (probe, _calls, repair) = failing_handler();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let names = ["a", "b", "c", "d"];
    for name in names {
        publish(platform.db(), "acme", [job("acme", name).ordered_by("k")]).await;
    }
    dead_letters(&owner, 4).await;
    repair.done();
    let ids = dead_letters_named(&owner, &names).await;
    // Each is inserted in order among those already waiting.
    for (nth, first) in [(2, true), (0, true), (3, false), (1, false)] {
        let outcome = requeue_with(platform.db(), &[ids[nth]], &later()).await.remove(0);
        assert_eq!(outcome.wait_ms.is_some(), first, "{}", names[nth]);
    }
    assert_eq!(effects(&owner).await, [] as [&str; 0]);
    make_due(&owner).await;
    assert_eq!(effects_reach(&owner, 4).await, names);
}

#[tokio::test]
async fn new_messages_of_the_key_wait_behind_a_letter_that_is_not_due() {
    let (probe, _calls, repair) = failing_for(|name| name == "old");
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "old").ordered_by("k")]).await;
    dead_letters(&owner, 1).await;
    repair.done();
    requeue_with(platform.db(), &dead_letters_named(&owner, &["old"]).await, &later()).await;
    publish(platform.db(), "acme", [job("acme", "new").ordered_by("k"), job("acme", "free")]).await;
    assert_eq!(effects_reach(&owner, 1).await, ["free"]);
    deferred_reaches(&owner, "parked", 1).await;
    make_due(&owner).await;
    assert_eq!(effects_reach(&owner, 3).await, ["free", "old", "new"]);
}

#[tokio::test]
async fn a_requeue_waits_for_the_turn_that_a_worker_takes_in_the_same_lane() {
    let released = Arc::new(Semaphore::new(0));
    let (held, repair) = (released.clone(), crate::triage_support::Repair::default());
    let repaired = repair.clone();
    let (probe, mut calls) = Probe::new(move |_, seen| {
        let (held, repaired) = (held.clone(), repaired.is_done());
        Box::pin(async move {
            match seen.name.as_str() {
                "dead" if !repaired => return Err(Failure::permanent("broken")),
                "slow" => held.acquire().await.expect("never closed").forget(),
                _ => {}
            }
            if seen.name == "slow" && seen.attempt == 1 { Err(Failure::transient("once more")) } else { Ok(()) }
        })
    });
    let platform = running(one_lane(), consumer(probe).retry(quick(3)).budget(GENEROUS)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "dead").ordered_by("k")]).await;
    dead_letters(&owner, 1).await;
    repair.done();
    calls.drain();
    publish(platform.db(), "acme", [job("acme", "slow").ordered_by("k")]).await;
    assert_eq!(calls.next().await.name, "slow");
    let (db, ids) = (platform.db().clone(), dead_letters_named(&owner, &["dead"]).await);
    let requeuing = tokio::spawn(async move { requeue(&db, &ids).await });
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    onceward_testkit::eventually("the requeue waits", || async {
        (crate::support::count(&owner, waits).await == 1).then_some(())
    })
    .await;
    // It fails (twice, because a turn is handled again one by one) and is deferred; then the dead letter is placed
    // before it.
    released.add_permits(10);
    assert_eq!(requeuing.await.expect("no panic")[0].wait_ms, Some(0));
    assert_eq!(effects_reach(&owner, 2).await, ["dead", "slow"]);
}
