//! The gate of failures: its reference values, its boundaries, and simulated releases that the real code decides.

use onceward_rollout::{FailureGate, GateAnswer, Sample, fisher_exact, lower_bound, upper_bound};
use proptest::prelude::*;

/// A step of a release with the usual limit of 0.5 % takes this many messages.
const STEP: u64 = 598;
const RAMPS: u64 = 20_000;

fn sample(failures: u64, messages: u64) -> Sample {
    Sample { messages, failures }
}

fn answer(failures: u64, messages: u64) -> GateAnswer {
    FailureGate::default().answer(sample(failures, messages), None)
}

/// Asserts that `value` is `expected` percent, to the digits that are given.
fn assert_percent(value: f64, expected: f64, tolerance: f64) {
    assert!((value * 100.0 - expected).abs() <= tolerance, "{} % is not {expected} %", value * 100.0);
}

#[test]
fn bounds_have_their_reference_values() {
    assert_percent(lower_bound(sample(1, 20), 0.95), 0.256, 0.0005);
    assert_percent(upper_bound(sample(1, 20), 0.95), 21.6, 0.05);
    assert_percent(lower_bound(sample(2, 100), 0.95), 0.357, 0.0005);
    assert_percent(upper_bound(sample(2, 100), 0.95), 6.162, 0.0005);
    assert_percent(lower_bound(sample(10, 1_000), 0.95), 0.5435, 0.00005);
    assert_percent(upper_bound(sample(10, 1_000), 0.95), 1.690, 0.0005);
    assert_percent(upper_bound(sample(0, 598), 0.95), 0.4997, 0.00005);
    assert_percent(upper_bound(sample(0, 597), 0.95), 0.5005, 0.00005);
    assert_eq!((lower_bound(sample(0, 5), 0.95), upper_bound(sample(5, 5), 0.95)), (0.0, 1.0));
    assert_eq!((lower_bound(sample(0, 0), 0.95), upper_bound(sample(0, 0), 0.95)), (0.0, 1.0));
}

#[test]
fn bounds_are_right_for_large_samples_too() {
    // 0.5 % of a million: the normal approximation is good there, and the exact terms are far below the smallest number.
    let (lower, upper) = (lower_bound(sample(5_000, 1_000_000), 0.95), upper_bound(sample(5_000, 1_000_000), 0.95));
    assert_percent(lower, 0.5 - 1.645 * 0.00705, 0.0005);
    assert_percent(upper, 0.5 + 1.645 * 0.00705, 0.0005);
}

#[test]
fn a_step_passes_after_598_messages_without_a_failure_and_not_before() {
    assert_eq!((answer(0, 597), answer(0, 598)), (GateAnswer::NotEnoughData, GateAnswer::Pass));
    let messages = |limit| FailureGate { limit, ..FailureGate::default() }.messages_to_pass();
    assert_eq!((messages(0.01), messages(0.005), messages(0.001)), (299, 598, 2_995));
}

#[test]
fn a_step_fails_exactly_within_the_boundaries_of_the_stop_rule() {
    let expected = [
        (1, 2, GateAnswer::NotEnoughData),
        (2, 30, GateAnswer::Fail),
        (2, 31, GateAnswer::NotEnoughData),
        (3, 87, GateAnswer::Fail),
        (3, 88, GateAnswer::NotEnoughData),
        (5, 257, GateAnswer::Fail),
        (5, 258, GateAnswer::NotEnoughData),
    ];
    for (failures, messages, expected) in expected {
        assert_eq!(answer(failures, messages), expected, "{failures} of {messages}");
    }
}

#[test]
fn no_data_neither_passes_nor_fails() {
    assert_eq!(answer(0, 0), GateAnswer::NotEnoughData);
    assert_eq!(FailureGate::default().answer(sample(0, 0), Some(sample(0, 0))), GateAnswer::NotEnoughData);
}

#[test]
fn a_candidate_that_is_worse_than_its_control_fails_within_the_limit_too() {
    let gate = FailureGate { limit: 0.05, ..FailureGate::default() };
    let (candidate, healthy, as_bad) = (sample(8, 400), sample(1, 4_000), sample(80, 4_000));
    assert_eq!(gate.answer(candidate, Some(healthy)), GateAnswer::Fail);
    assert!(fisher_exact(candidate, healthy) < 0.001);
    assert_ne!(gate.answer(candidate, Some(as_bad)), GateAnswer::Fail);
    let figures = gate.figures(candidate, Some(as_bad));
    assert!(figures.lower < 0.02 && figures.upper > 0.02 && figures.worse_by_chance > Some(0.4), "{figures:?}");
}

/// A small generator with a fixed seed, so that a simulation has the same result everywhere.
struct SplitMix(u64);

impl SplitMix {
    fn happens(&mut self, rate: f64) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / ((1_u64 << 53) as f64) < rate
    }
}

/// Returns after how many messages each of the ramps was stopped, if it was. The gate is asked after every failure: a
/// success never makes it fail, which a test below shows.
fn stops(true_rate: f64) -> Vec<Option<u64>> {
    let mut random = SplitMix(2_026);
    let mut ramp = || {
        let mut failures = 0;
        (1..=STEP).find(|messages| {
            let failed = random.happens(true_rate);
            failures += u64::from(failed);
            failed && answer(failures, *messages) == GateAnswer::Fail
        })
    };
    (0..RAMPS).map(|_| ramp()).collect()
}

#[test]
fn a_failure_rate_of_five_percent_stops_a_ramp_within_60_messages_on_average_and_150_at_p95() {
    let mut stopped: Vec<u64> = stops(0.05).into_iter().flatten().collect();
    stopped.sort_unstable();
    assert!(stopped.len() as u64 > RAMPS * 999 / 1_000, "{} of {RAMPS} were stopped", stopped.len());
    let mean = stopped.iter().sum::<u64>() as f64 / stopped.len() as f64;
    let p95 = stopped[stopped.len() * 95 / 100];
    println!("stopped after {mean:.1} messages on average, {p95} at p95");
    assert!(mean <= 60.0 && p95 <= 150, "{mean} on average, {p95} at p95");
}

#[test]
fn a_failure_rate_of_a_tenth_of_a_percent_stops_fewer_than_one_ramp_in_a_thousand() {
    let stopped = stops(0.001).into_iter().flatten().count() as u64;
    println!("{stopped} of {RAMPS} healthy ramps were stopped");
    assert!(stopped * 1_000 < RAMPS, "{stopped} of {RAMPS}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_success_never_makes_the_gate_fail_and_a_failure_never_makes_it_pass(
        (messages, failures) in (0..3_000_u64).prop_flat_map(|messages| (Just(messages), 0..=messages.min(60))),
    ) {
        let before = answer(failures, messages);
        if before != GateAnswer::Fail {
            prop_assert_ne!(answer(failures, messages + 1), GateAnswer::Fail);
        }
        if before != GateAnswer::Pass {
            prop_assert_ne!(answer(failures + 1, messages + 1), GateAnswer::Pass);
        }
    }

    #[test]
    fn the_answer_agrees_with_the_bounds(
        (messages, failures) in (1..3_000_u64).prop_flat_map(|messages| (Just(messages), 0..=messages.min(60))),
    ) {
        let gate = FailureGate::default();
        let figures = gate.figures(sample(failures, messages), None);
        let expected = if failures >= 2 && figures.lower > gate.limit {
            GateAnswer::Fail
        } else if figures.upper < gate.limit {
            GateAnswer::Pass
        } else {
            GateAnswer::NotEnoughData
        };
        prop_assert_eq!(answer(failures, messages), expected);
    }
}
