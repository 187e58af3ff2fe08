//! Cases with the values that other libraries have for them. Where our rule differs on purpose, the test says so. Others
//! are beside the rules: S-12 and S-19 in `autoscale`, S-04 and S-05 in the retry policy of the topology.

use onceward_resilience::{
    AdaptiveLimit, Breaker, BreakerChange, BreakerPhase, BreakerSettings, BudgetState, CallSample, ConcurrencyLimit,
    LimitRule, Outcome, RetryBudget, Ticket, TicketKind,
};
use std::time::Duration;

const NO_JITTER: f64 = 0.5;

fn call(breaker: &mut Breaker, outcome: Outcome, now_ms: u64) -> Option<BreakerChange> {
    let ticket = breaker.try_acquire(now_ms).expect("the call is allowed");
    breaker.complete(ticket, outcome, now_ms, NO_JITTER)
}

fn open_breaker(settings: BreakerSettings) -> Breaker {
    let mut breaker = Breaker::new(settings);
    for _ in 0..settings.failures {
        call(&mut breaker, Outcome::Failure, 0);
    }
    assert_eq!(breaker.phase(), BreakerPhase::Open);
    breaker
}

/// S-01: a failure and then successes. Resilience4j forgets the failure after four calls; our window is a time, so the
/// rate falls with every success but the failure counts until it is old.
#[test]
fn a_failure_rate_falls_with_every_success() {
    for (successes, percent) in [(0, 100), (1, 50), (2, 33), (3, 25), (4, 20)] {
        let opens_at = |failure_percent| {
            let settings = BreakerSettings { failures: 1, failure_percent, ..BreakerSettings::default() };
            let mut breaker = Breaker::new(settings);
            for _ in 0..successes {
                call(&mut breaker, Outcome::Success, 0);
            }
            call(&mut breaker, Outcome::Failure, 0).is_some()
        };
        assert!(opens_at(percent), "{successes} successes");
        assert!(percent == 100 || !opens_at(percent + 1), "{successes} successes");
    }
}

/// S-02: two of five calls are slow, one of them a failure.
#[test]
fn two_slow_calls_of_five_are_forty_percent() {
    let opens_at = |slow_percent| {
        let slow = BreakerSettings { slow_after_ms: Some(10_000), slow_percent, ..BreakerSettings::default() };
        let mut breaker = Breaker::new(BreakerSettings { failures: 2, ..slow });
        let results = [(100, Outcome::Success); 3].into_iter().chain([(10_000, Outcome::Success)]);
        let changes = results.chain([(10_000, Outcome::Failure)]).map(|(took_ms, outcome)| {
            let ticket = breaker.try_acquire(0).expect("it is closed");
            breaker.complete(ticket, outcome, took_ms, NO_JITTER)
        });
        changes.last().flatten().is_some()
    };
    assert!(opens_at(40) && !opens_at(41));
}

/// S-03: of ten calls that fail, the first three pass and seven are rejected.
#[test]
fn calls_after_the_opening_are_rejected() {
    let settings = BreakerSettings { failures: 3, failure_percent: 10, window_ms: 1_000, ..BreakerSettings::default() };
    let mut breaker = Breaker::new(settings);
    let made = (0..10).filter_map(|_| {
        breaker.try_acquire(0).ok().map(|ticket| breaker.complete(ticket, Outcome::Failure, 0, NO_JITTER))
    });
    assert_eq!(made.count(), 3);
}

/// S-06: two first attempts earn one retry at a ratio of a half, as long as they are in the window. tower still counts
/// them after 901 ms of a window of 1 s, and so do we.
#[test]
fn two_first_attempts_earn_one_retry_at_a_half() {
    let mut budget = BudgetState::new(RetryBudget { ratio: 0.5, min_per_second: 0.0, window_ms: 1_000 });
    budget.deposit(0);
    budget.deposit(0);
    assert_eq!((0..5).filter(|_| budget.withdraw(901)).count(), 1);
}

/// S-07: a reserve of five a second allows five retries without any traffic.
#[test]
fn a_reserve_allows_its_number_and_no_more() {
    let mut budget = BudgetState::new(RetryBudget { ratio: 1.0, min_per_second: 5.0, window_ms: 1_000 });
    assert_eq!((0..100).filter(|_| budget.withdraw(0)).count(), 5);
}

/// S-08: Envoy's budget is a part of the calls in flight, or its minimum if that is more. Ours is the same part of the first
/// attempts of the window.
#[test]
fn a_budget_is_a_part_of_the_traffic_and_at_least_its_minimum() {
    for (first_attempts, retries) in [(0, 5), (50, 10), (100, 20)] {
        let mut budget = BudgetState::new(RetryBudget { ratio: 0.2, min_per_second: 5.0, window_ms: 1_000 });
        (0..first_attempts).for_each(|_| budget.deposit(0));
        assert_eq!((0..1_000).filter(|_| budget.withdraw(0)).count(), retries);
    }
}

/// Everything fails, and every failure is retried as far as the budget allows: a fifth more calls at most, the minimum
/// included.
#[test]
fn retries_add_at_most_a_fifth_to_the_load_when_everything_fails() {
    for min_per_second in [0.0, 1.0, 200.0] {
        let mut budget = BudgetState::new(RetryBudget { ratio: 0.2, min_per_second, window_ms: 10_000 });
        let (first_attempts, mut calls) = (60_000, 0);
        for now_ms in 0..first_attempts {
            budget.deposit(now_ms);
            calls += 1 + u64::from(budget.withdraw(now_ms));
        }
        // What the last window has earned may be spent at any time in it.
        assert!(calls * 10 <= first_attempts * 12 + 20_000, "{calls} calls for {first_attempts} messages");
    }
}

fn call_sample(ms: u64, in_flight: usize, is_drop: bool) -> CallSample {
    CallSample { took: Duration::from_millis(ms), in_flight, is_drop }
}

/// S-10: one more after a success that used at least half of the limit, a tenth less after a drop.
#[test]
fn a_limit_by_aimd_grows_by_one_and_shrinks_by_a_tenth() {
    let after = |initial: usize, sample: CallSample| {
        let mut limit = ConcurrencyLimit::new(initial, Some(AdaptiveLimit::default()));
        limit.update(sample);
        limit.get()
    };
    assert_eq!(after(20, call_sample(10, 10, false)), 21);
    assert_eq!(after(30, call_sample(10, 10, true)), 27);
}

/// S-11: the first call is the yardstick; one that is as fast lets the limit grow by beta.
#[test]
fn a_limit_by_vegas_grows_while_calls_do_not_queue() {
    let rule = LimitRule::Vegas { alpha: 3, beta: 6 };
    let mut limit = ConcurrencyLimit::new(10, Some(AdaptiveLimit { rule, min: 1, max: 20 }));
    limit.update(call_sample(10, 10, false));
    assert_eq!(limit.get(), 10);
    limit.update(call_sample(10, 11, false));
    assert_eq!(limit.get(), 16);
}

/// S-14: four failures in the first seconds and one after a minute.
#[test]
fn failures_older_than_the_window_do_not_count() {
    let mut breaker = Breaker::new(BreakerSettings::default());
    for second in [0, 1, 2, 3, 61] {
        assert_eq!(call(&mut breaker, Outcome::Failure, second * 1_000), None);
    }
    assert_eq!(breaker.phase(), BreakerPhase::Closed);
}

/// S-15: a call begins, the breaker opens, a probe is out, and the call succeeds.
#[test]
fn a_call_from_before_the_opening_decides_nothing() {
    let mut breaker = Breaker::new(BreakerSettings::default());
    let before = breaker.try_acquire(0).expect("it is closed");
    for _ in 0..5 {
        call(&mut breaker, Outcome::Failure, 0);
    }
    let probe = breaker.try_acquire(30_000).expect("the pause is over");
    assert_eq!(breaker.complete(before, Outcome::Success, 30_001, NO_JITTER), None);
    assert_eq!(breaker.phase(), BreakerPhase::Probing);
    let change = breaker.complete(probe, Outcome::Failure, 30_002, NO_JITTER);
    assert_eq!(change, Some(BreakerChange::ProbeFailed { pause_ms: 60_000 }));
    assert_eq!(breaker.phase(), BreakerPhase::Open);
}

/// S-16: a probe that never answers is replaced after its limit, and its late answer decides nothing.
#[test]
fn a_probe_that_never_answers_is_replaced_after_its_limit() {
    let mut breaker = open_breaker(BreakerSettings::default());
    let lost = breaker.try_acquire(30_000).expect("the pause is over");
    assert!(breaker.try_acquire(89_999).is_err());
    let next = breaker.try_acquire(90_000).expect("the limit is over");
    assert_eq!(next.kind(), TicketKind::Probe);
    assert_eq!(breaker.complete(lost, Outcome::Success, 90_001, NO_JITTER), None);
    assert_eq!(breaker.phase(), BreakerPhase::Probing);
    assert_eq!(breaker.complete(next, Outcome::Success, 90_002, NO_JITTER), Some(BreakerChange::Closed));
}

/// S-18: a thousand messages wait when the breaker closes. The destination does four calls a second, one after the other;
/// a call fails if it takes 5 s, and a bulkhead admits 16.
#[test]
fn a_backlog_returns_step_by_step_and_does_not_open_the_breaker_again() {
    let (limit, service_ms, timeout_ms) = (16, 250, 5_000);
    let mut breaker = open_breaker(BreakerSettings::default());
    assert_eq!(call(&mut breaker, Outcome::Success, 30_000), Some(BreakerChange::Closed));
    let (mut waiting, mut in_flight, mut largest) = (1_000, Vec::<(Ticket, u64)>::new(), Vec::new());
    for now_ms in (30_000..400_000).step_by(service_ms) {
        while waiting > 0 && in_flight.len() < limit {
            let Ok(ticket) = breaker.try_acquire(now_ms) else { break };
            in_flight.push((ticket, now_ms));
            waiting -= 1;
        }
        largest.push(in_flight.len());
        if !in_flight.is_empty() {
            let (ticket, began_ms) = in_flight.remove(0);
            let took_ms = now_ms + service_ms as u64 - began_ms;
            let outcome = if took_ms < timeout_ms { Outcome::Success } else { Outcome::Failure };
            assert_eq!(breaker.complete(ticket, outcome, began_ms + took_ms, NO_JITTER), None);
        }
    }
    assert_eq!((waiting, in_flight.len()), (0, 0));
    assert_eq!(largest[..5], [1, 2, 3, 4, 5], "one more with every success");
    assert_eq!(largest.iter().max(), Some(&limit));
}
