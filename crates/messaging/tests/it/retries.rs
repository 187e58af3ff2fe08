//! What a handler says, and what becomes of its message.

use crate::support::{
    Probe, Seen, consumer, dead_letters, drained, effects, effects_reach, job, one_lane, publish, publish_names, quick,
    running,
};
use onceward::{Failure, RetryPolicy, topology::Jitter};
use std::{future::pending, time::Duration};

#[tokio::test]
async fn retries_wait_as_long_as_the_policy_says_and_longer_each_time() {
    let (probe, mut calls) = Probe::new(|_, _| Box::pin(async { Err(Failure::transient("no")) }));
    let policy = RetryPolicy::exponential(4).initial_ms(150).cap_ms(300).jitter(Jitter::None);
    let platform = running(one_lane(), consumer(probe).retry(policy)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("attempts_exhausted", 4));
    // Each attempt is made twice: in the turn as a whole, and then by itself.
    let mut attempts: Vec<Seen> = Vec::new();
    for _ in 0..8 {
        attempts.push(calls.next().await);
    }
    assert_eq!(calls.drain(), 0);
    for (attempt, least_ms) in [(2, 150), (3, 300), (4, 300)] {
        let last_before = attempts.iter().rfind(|seen| seen.attempt == attempt - 1).expect("it was made");
        let first_of = attempts.iter().find(|seen| seen.attempt == attempt).expect("it was made");
        let waited = first_of.at - last_before.at;
        assert!(waited >= Duration::from_millis(least_ms), "attempt {attempt} came after {waited:?}");
    }
}

#[tokio::test]
async fn a_permanent_failure_is_a_dead_letter_at_once() {
    let (probe, _calls) = Probe::new(|_, _| Box::pin(async { Err(Failure::permanent("the account is closed")) }));
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("rejected", 1));
    assert_eq!(dead[0].first_error.as_deref(), Some("the account is closed"));
    assert_eq!(effects(&owner).await, [""; 0]);
}

#[tokio::test]
async fn a_handler_that_panics_is_tried_again() {
    let (probe, _calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            assert!(seen.attempt > 1, "the first attempt panics, on purpose");
            Ok(())
        })
    });
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    effects_reach(&owner, 1).await;
    let row = owner.query_one("SELECT attempt FROM probe.effect", &[]).await.expect("one effect");
    assert_eq!(row.get::<_, i32>(0), 2);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_cut_off_and_tried_again() {
    let (probe, _calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            if seen.attempt == 1 {
                pending::<()>().await;
            }
            Ok(())
        })
    });
    let platform = running(one_lane(), consumer(probe).timeout(Duration::from_millis(50))).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    assert_eq!(effects_reach(&owner, 1).await, ["a"]);
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["a"]);
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_undone_with_its_handler() {
    let (probe, _calls) = Probe::new(|tx, seen| {
        Box::pin(async move {
            if seen.attempt == 1 {
                tx.query("SELECT pg_sleep(0.3)", &[]).await?;
            }
            Ok(())
        })
    });
    let platform = running(one_lane(), consumer(probe).timeout(Duration::from_millis(50))).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    drained_with(&owner, &["a"]).await;
}

async fn drained_with(owner: &tokio_postgres::Client, names: &[&str]) {
    effects_reach(owner, names.len()).await;
    drained(owner).await;
    assert_eq!(effects(owner).await, names);
}

#[tokio::test]
async fn a_snooze_waits_without_counting_an_attempt() {
    let snoozed = std::sync::atomic::AtomicU32::new(0);
    let (probe, _calls) = Probe::new(move |_, seen| {
        let times = snoozed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Box::pin(async move {
            assert_eq!(seen.attempt, 1, "a snooze counted");
            match times {
                0..10 => Err(Failure::snooze(Duration::from_millis(10), "not yet")),
                _ => Ok(()),
            }
        })
    });
    let platform = running(one_lane(), consumer(probe).retry(quick(2))).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    drained_with(&owner, &["a"]).await;
    let row = owner.query_one("SELECT attempt FROM probe.effect", &[]).await.expect("one effect");
    assert_eq!(row.get::<_, i32>(0), 1);
}

#[tokio::test]
async fn a_retry_comes_no_earlier_than_the_handler_asked_for() {
    let (probe, mut calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            match seen.attempt {
                1 => Err(Failure::retry_after(Duration::from_millis(400), "ask again later")),
                _ => Ok(()),
            }
        })
    });
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    drained_with(&owner, &["a"]).await;
    calls.next().await;
    let (failed, again) = (calls.next().await, calls.next().await);
    assert_eq!((failed.attempt, again.attempt), (1, 2));
    assert!(again.at - failed.at >= Duration::from_millis(400), "{:?}", again.at - failed.at);
}

#[tokio::test]
async fn retries_beyond_the_budget_are_slowed_down_but_not_refused() {
    let (probe, mut calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            match seen.attempt {
                1 => Err(Failure::transient("no")),
                _ => Ok(()),
            }
        })
    });
    let none = onceward::RetryBudget { ratio: 0.0, min_per_second: 0.0, window_ms: 1_000 };
    let policy = RetryPolicy::exponential(3).initial_ms(1).cap_ms(300).jitter(Jitter::None);
    let platform = running(one_lane(), consumer(probe).retry(policy).budget(none)).await;
    publish(platform.db(), "acme", [job("acme", "a")]).await;
    calls.next().await;
    let (failed, again) = (calls.next().await, calls.next().await);
    assert_eq!((failed.attempt, again.attempt), (1, 2));
    assert!(again.at - failed.at >= Duration::from_millis(300), "{:?}", again.at - failed.at);
}
