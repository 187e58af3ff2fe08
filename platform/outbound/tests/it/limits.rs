//! The limits of the calls that are allowed: retries over all processes, calls in flight, and what a breaker says before a call.

use crate::support::*;
use onceward_outbound::{CallError, Destination, Outbound, OutboundError, RejectReason, list};
use onceward_resilience::{AdaptiveLimit, BreakerSettings, BulkheadSettings, RetryBudget, SharedPhase};
use std::{sync::atomic::Ordering::SeqCst, time::Duration};

const PROCESSES: usize = 8;

/// A destination whose breakers never open, so that only the budget limits retries. Its window is longer than a test.
fn without_breaker() -> Destination {
    let breaker = BreakerSettings { failures: u32::MAX, ..BreakerSettings::default() };
    let budget = RetryBudget { ratio: 0.2, min_per_second: 0.01, window_ms: 1_600_000 };
    sms().breaker(breaker).budget(budget).timeout(Duration::from_secs(30))
}

/// Calls once as a retry. Returns whether the call was made.
async fn retry(process: &Process, receiver: &Receiver) -> bool {
    let call = process.outbound.call(SMS).expect("it is declared").retry(true);
    let result = call.run(|_| receiver.answer()).await;
    !matches!(result, Err(OutboundError::Rejected(rejected)) if rejected.why == RejectReason::BudgetEmpty)
}

#[tokio::test(flavor = "multi_thread")]
async fn when_everything_fails_retries_add_a_fifth_at_most_and_their_minimum_holds_for_all_processes() {
    let (database, receiver) = (database().await, Receiver::default());
    let processes: Vec<Process> = (0..PROCESSES).map(|_| Process::start_with(&database, without_breaker())).collect();
    for process in &processes {
        assert!(send(&process.outbound, &receiver).await.is_err());
    }
    eventually("all know each other", async || {
        processes.iter().all(|process| process.outbound.live_processes(SMS) == PROCESSES)
    })
    .await;
    let mut retries = 0;
    for process in &processes {
        while retry(process, &receiver).await {
            retries += 1;
        }
    }
    // 0.01 a second for 1,600 seconds are 16 retries, two for each process.
    assert_eq!(retries, 16, "the minimum is that of all processes together");

    let first_attempts = 200 * PROCESSES;
    for process in &processes {
        for _ in 0..199 {
            assert!(send(&process.outbound, &receiver).await.is_err());
        }
        while retry(process, &receiver).await {
            retries += 1;
        }
    }
    let calls = receiver.calls.load(SeqCst);
    assert_eq!(calls, first_attempts + retries);
    assert!(calls * 10 <= first_attempts * 12, "{calls} calls for {first_attempts} messages");
    println!("{calls} calls for {first_attempts} messages of which every one failed");
}

#[tokio::test]
async fn credentials_that_are_systems_have_a_retry_budget_each() {
    let budget = RetryBudget { ratio: 0.0, min_per_second: 0.001, window_ms: 3_000_000 };
    let hooks = without_breaker().budget(budget);
    let (outbound, receiver) = (Outbound::new([hooks.credentials_are_systems()], None), Receiver::default());
    receiver.is_up.store(true, SeqCst);
    for credential in ["first", "second"] {
        let mut retries = 0;
        let retry = async || {
            let call = outbound.call(SMS).expect("it is declared").credential(credential).retry(true);
            call.run(|_| receiver.answer()).await
        };
        while retry().await.is_ok() {
            retries += 1;
        }
        assert_eq!(retries, 3, "{credential}");
    }
}

#[tokio::test]
async fn an_adaptive_limit_grows_with_successes_and_shrinks_when_calls_are_dropped() {
    let adaptive = Some(AdaptiveLimit { min: 2, max: 12, ..AdaptiveLimit::default() });
    let bulkhead = BulkheadSettings { limit: 10, adaptive, ..BulkheadSettings::default() };
    let outbound = Outbound::new([without_breaker().bulkhead(bulkhead)], None);
    // Eight calls at a time: at least half of the limit, so that their success says something about it.
    let round = async |result: Result<(), CallError>| {
        let calls = (0..8).map(|_| {
            let (call, result) = (outbound.call(SMS).expect("it is declared"), result.clone());
            call.run(|_| async {
                tokio::task::yield_now().await;
                result
            })
        });
        futures_util::future::join_all(calls).await;
        outbound.limit(SMS)
    };
    assert_eq!(round(Ok(())).await, Some(12), "it grows to its maximum");
    let throttled = CallError::Throttled { retry_after: None, error: "too many requests".to_owned() };
    assert_eq!(round(Err(CallError::Refused("no such number".to_owned()))).await, Some(12), "it works");
    let after = round(Err(throttled)).await.expect("it is declared");
    assert!(after < 8, "{after}");
    for _ in 0..10 {
        round(Err(CallError::Failed("no answer".to_owned()))).await;
    }
    assert_eq!(outbound.limit(SMS), Some(2), "it shrinks to its minimum");
}

/// Opens the breaker for all processes.
async fn open_for_all(processes: &[Process], receiver: &Receiver) {
    for process in processes {
        for _ in 0..5 {
            assert!(matches!(send(&process.outbound, receiver).await, Err(OutboundError::Call(_))));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_probe_that_is_slow_does_not_close_the_breaker_if_slow_calls_count() {
    let database = database().await;
    // Every call is slow, however fast this machine is.
    let slow = || sms().breaker(BreakerSettings { slow_after_ms: Some(0), ..short_pauses() });
    let (processes, receiver) = ([(); 2].map(|()| Process::start_with(&database, slow())), Receiver::default());
    open_for_all(&processes, &receiver).await;
    receiver.is_up.store(true, SeqCst);
    eventually("a probe succeeds", async || send(&processes[0].outbound, &receiver).await.is_ok()).await;
    let rows = list(&processes[0].db).await.expect("the breakers can be read");
    assert!(
        matches!(rows[0].breaker.phase, SharedPhase::Open { pause_ms, .. } if pause_ms == 2 * PAUSE_MS),
        "{rows:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_can_ask_whether_a_breaker_would_reject_it_without_changing_anything() {
    let (database, receiver) = (database().await, Receiver::default());
    let processes: Vec<Process> = (0..2).map(|_| Process::start(&database)).collect();
    assert_eq!(processes[0].outbound.rejection(SMS, ""), None);
    for _ in 0..5 {
        assert!(send(&processes[0].outbound, &receiver).await.is_err());
    }
    let rejected = processes[0].outbound.rejection(SMS, "").expect("its own breaker is open");
    assert!(rejected.why == RejectReason::BreakerOpen && rejected.after <= Duration::from_millis(2 * PAUSE_MS));
    assert_eq!(processes[1].outbound.rejection(SMS, ""), None, "no quorum");
    assert_eq!(processes[0].outbound.rejection(SMS, "another key"), None);
    open_for_all(&processes[1..], &receiver).await;
    eventually("all stop", async || processes.iter().all(|process| process.outbound.rejection(SMS, "").is_some()))
        .await;
    eventually("the pause is over", async || processes[0].outbound.rejection(SMS, "").is_none()).await;
    assert!(matches!(list(&processes[0].db).await.expect("readable")[0].breaker.phase, SharedPhase::Open { .. }));
}
