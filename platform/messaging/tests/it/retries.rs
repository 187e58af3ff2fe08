//! The result of a handler, and the settlement of its message.

use crate::support::{
    HandlerCall, Probe, consumer, count, dead_letters, drained, effects, effects_reach, job, numbered, one_lane,
    publish, publish_names, quick, running, write_effect,
};
use onceward::{Failure, RetryPolicy, topology::Jitter};
use std::{future::pending, time::Duration};

#[tokio::test]
async fn retries_wait_by_the_policy_and_longer_each_time() {
    let (probe, mut calls) = Probe::new(|_, _| Box::pin(async { Err(Failure::transient("no")) }));
    let policy = RetryPolicy::exponential(4).initial_ms(150).cap_ms(300).jitter(Jitter::None);
    let platform = running(one_lane(), consumer(probe).retry(policy)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("attempts_exhausted", 4));
    // Each attempt runs twice: in the turn as a whole, and then alone.
    let mut attempts: Vec<HandlerCall> = Vec::new();
    for _ in 0..8 {
        attempts.push(calls.next().await);
    }
    assert_eq!(calls.drain(), 0);
    for (attempt, least_ms) in [(2, 150), (3, 300), (4, 300)] {
        let last_before = attempts.iter().rfind(|seen| seen.attempt == attempt - 1).expect("it was created");
        let first_of = attempts.iter().find(|seen| seen.attempt == attempt).expect("it was created");
        let waited = first_of.at - last_before.at;
        assert!(waited >= Duration::from_millis(least_ms), "attempt {attempt} came after {waited:?}");
    }
}

#[tokio::test]
async fn a_permanent_failure_makes_a_dead_letter_immediately() {
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
async fn a_message_whose_handler_panics_is_retried() {
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
async fn a_message_whose_handler_times_out_is_retried() {
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
async fn a_statement_that_times_out_is_rolled_back_with_its_handler() {
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
async fn a_retry_does_not_run_before_the_time_that_the_handler_requested() {
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

#[tokio::test]
async fn a_server_that_refuses_writes_is_an_outage_and_counts_no_attempt() {
    let outages = std::sync::atomic::AtomicU32::new(2);
    let (probe, _calls) = Probe::new(move |tx, seen| {
        use std::sync::atomic::Ordering::Relaxed;
        let fails = outages.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        Box::pin(async move {
            if fails {
                tx.execute("SET TRANSACTION READ ONLY", &[]).await?;
                // As in a service with its own error type, which no longer shows what kind of error it was.
                write_effect(tx, &seen).await.map_err(|_| Failure::transient("could not write"))?;
            }
            Ok(())
        })
    });
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    effects_reach(&owner, 1).await;
    let row = owner.query_one("SELECT attempt FROM probe.effect", &[]).await.expect("one effect");
    assert_eq!(row.get::<_, i32>(0), 1, "it waited for the end of the outage");
}

#[tokio::test]
async fn first_attempts_that_succeed_together_earn_retries() {
    let (probe, _calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            match (seen.name.as_str(), seen.attempt) {
                ("bad", 1) => Err(Failure::transient("no")),
                _ => Ok(()),
            }
        })
    });
    // One retry per ten first attempts, none for free, and a window so long that none expire.
    let tenth = onceward::RetryBudget { ratio: 0.1, min_per_second: 0.0, window_ms: 3_600_000 };
    let policy = RetryPolicy::exponential(3).initial_ms(1).cap_ms(3_600_000).jitter(Jitter::None);
    let platform = running(one_lane(), consumer(probe).retry(policy).budget(tenth).concurrency(1)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", (0..100).map(|number| numbered("acme", "good", number))).await;
    effects_reach(&owner, 100).await;
    publish(platform.db(), "acme", (0..12).map(|number| numbered("acme", "bad", number))).await;
    // 112 first attempts earn eleven retries, which run at once; the twelfth waits for the policy's maximum.
    effects_reach(&owner, 111).await;
    let slowed = "SELECT count(*) FROM onceward.deferred WHERE due_at > clock_timestamp() + interval '30 minutes'";
    assert_eq!((count(&owner, slowed).await, effects(&owner).await.len()), (1, 111));
}
