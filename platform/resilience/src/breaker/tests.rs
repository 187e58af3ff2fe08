//! The breaker's rules, one by one.

use super::*;

const NO_JITTER: f64 = 0.5;

fn one_failure_opens() -> Breaker {
    Breaker::new(BreakerSettings { failures: 1, ..BreakerSettings::default() })
}

/// Makes a call with this outcome.
fn call(breaker: &mut Breaker, outcome: Outcome, now_ms: u64) -> Option<BreakerChange> {
    let ticket = breaker.try_acquire(now_ms).expect("the call is allowed");
    breaker.complete(ticket, outcome, now_ms, NO_JITTER)
}

fn rejected_for(breaker: &mut Breaker, now_ms: u64) -> u64 {
    breaker.try_acquire(now_ms).expect_err("the call is rejected").retry_after_ms
}

#[test]
fn five_failures_open_the_breaker_if_they_are_half_of_the_calls() {
    let mut breaker = Breaker::new(BreakerSettings::default());
    (0..6).for_each(|_| assert_eq!(call(&mut breaker, Outcome::Success, 0), None));
    (0..5).for_each(|_| assert_eq!(call(&mut breaker, Outcome::Failure, 0), None, "5 of 11 are less than half"));
    assert_eq!(call(&mut breaker, Outcome::Failure, 0), Some(BreakerChange::Opened { pause_ms: 30_000 }));
    assert_eq!(rejected_for(&mut breaker, 1_000), 29_000);
}

#[test]
fn successes_do_not_keep_failures_of_an_earlier_hour_alive() {
    let mut breaker = Breaker::new(BreakerSettings::default());
    for hour in 0..100 {
        assert_eq!(call(&mut breaker, Outcome::Failure, hour * 3_600_000), None);
    }
}

#[test]
fn one_probe_at_a_time_closes_the_breaker() {
    let mut breaker = one_failure_opens();
    call(&mut breaker, Outcome::Failure, 0);
    let probe = breaker.try_acquire(30_000).expect("the pause is over");
    assert_eq!(probe.kind(), TicketKind::Probe);
    assert_eq!(breaker.try_acquire(30_000), Err(Rejection { retry_after_ms: 3_000, phase: BreakerPhase::Probing }));
    assert_eq!(breaker.complete(probe, Outcome::Success, 30_100, NO_JITTER), Some(BreakerChange::Closed));
    assert_eq!(breaker.phase(), BreakerPhase::Closing);
}

#[test]
fn failed_probes_double_the_pause_and_ignored_ones_do_not() {
    let mut breaker = one_failure_opens();
    call(&mut breaker, Outcome::Failure, 0);
    let mut now_ms = 30_000;
    for (outcome, pause_ms) in [
        (Outcome::Failure, 60_000),
        (Outcome::Ignored, 60_000),
        (Outcome::Failure, 120_000),
        (Outcome::Failure, 240_000),
    ] {
        assert_eq!(call(&mut breaker, outcome, now_ms), Some(BreakerChange::ProbeFailed { pause_ms }));
        assert_eq!(rejected_for(&mut breaker, now_ms), pause_ms);
        now_ms += pause_ms;
    }
}

#[test]
fn a_slow_probe_does_not_close_the_breaker() {
    let settings = BreakerSettings { failures: 1, slow_after_ms: Some(1_000), ..BreakerSettings::default() };
    let mut breaker = Breaker::new(settings);
    call(&mut breaker, Outcome::Failure, 0);
    let probe = breaker.try_acquire(30_000).expect("the pause is over");
    let change = breaker.complete(probe, Outcome::Success, 31_000, NO_JITTER);
    assert_eq!(change, Some(BreakerChange::ProbeFailed { pause_ms: 60_000 }));
}

#[test]
fn slow_calls_open_the_breaker_although_they_succeed() {
    let settings =
        BreakerSettings { failures: 3, slow_after_ms: Some(10), slow_percent: 60, ..BreakerSettings::default() };
    let mut breaker = Breaker::new(settings);
    for (took_ms, opens) in [(9, false), (9, false), (10, false), (10, false), (10, true)] {
        let ticket = breaker.try_acquire(0).expect("it is closed");
        assert_eq!(breaker.complete(ticket, Outcome::Success, took_ms, NO_JITTER).is_some(), opens);
    }
}

#[test]
fn a_destination_that_asks_for_a_pause_gets_it_and_counts_half() {
    let throttled = Outcome::Throttled { retry_after_ms: Some(7_000) };
    let mut breaker = Breaker::new(BreakerSettings::default());
    let mut now_ms = 0;
    for _ in 0..9 {
        assert_eq!(call(&mut breaker, throttled, now_ms), None);
        assert_eq!(breaker.phase(), BreakerPhase::Closed);
        assert_eq!(rejected_for(&mut breaker, now_ms + 1_000), 6_000);
        now_ms += 7_000;
    }
    let hour = Outcome::Throttled { retry_after_ms: Some(3_600_000) };
    let mut breaker = one_failure_opens();
    call(&mut breaker, hour, 0);
    assert_eq!(rejected_for(&mut breaker, 0), 300_000, "the longest pause is the limit");
}

#[test]
fn a_probe_that_is_throttled_waits_as_long_as_it_was_asked_to() {
    let mut breaker = one_failure_opens();
    call(&mut breaker, Outcome::Failure, 0);
    let throttled = Outcome::Throttled { retry_after_ms: Some(90_000) };
    assert_eq!(call(&mut breaker, throttled, 30_000), Some(BreakerChange::ProbeFailed { pause_ms: 90_000 }));
}

#[test]
fn outcomes_that_say_nothing_about_the_destination_are_not_counted() {
    let mut breaker = one_failure_opens();
    for outcome in [Outcome::Ignored, Outcome::Unknown] {
        (0..100).for_each(|_| assert_eq!(call(&mut breaker, outcome, 0), None));
    }
    assert_eq!(breaker.phase(), BreakerPhase::Closed);
}

#[test]
fn a_slow_start_doubles_with_every_round_and_ends_at_its_limit() {
    let settings = BreakerSettings { failures: 1, slow_start_until: 8, ..BreakerSettings::default() };
    let mut breaker = Breaker::new(settings);
    call(&mut breaker, Outcome::Failure, 0);
    call(&mut breaker, Outcome::Success, 30_000);
    for round in [1, 2, 4, 8] {
        let tickets: Vec<Ticket> = std::iter::from_fn(|| breaker.try_acquire(30_000).ok()).take(100).collect();
        assert_eq!(tickets.len(), round);
        for ticket in tickets {
            breaker.complete(ticket, Outcome::Success, 30_000, NO_JITTER);
        }
    }
    assert_eq!(breaker.phase(), BreakerPhase::Closed);
}

#[test]
fn a_breaker_that_opens_while_it_closes_doubles_its_pause() {
    let mut breaker = one_failure_opens();
    call(&mut breaker, Outcome::Failure, 0);
    call(&mut breaker, Outcome::Success, 30_000);
    assert_eq!(call(&mut breaker, Outcome::Failure, 30_000), Some(BreakerChange::Opened { pause_ms: 60_000 }));
}

#[test]
fn a_call_without_a_result_frees_its_place_in_a_slow_start() {
    let mut breaker = one_failure_opens();
    call(&mut breaker, Outcome::Failure, 0);
    call(&mut breaker, Outcome::Success, 30_000);
    for outcome in [Outcome::Unknown, Outcome::Ignored] {
        (0..10).for_each(|_| assert_eq!(call(&mut breaker, outcome, 30_000), None));
    }
}
