//! The cases that are checked, and the broken rules that must be detected.

use super::{
    BrokenRule, Bus,
    properties::{IN_ORDER, NOT_LOST, ONCE, ReachedState},
    state::Message,
};
use stateright::{Checker, HasDiscoveries, Model};

/// Parses the scripts of publishers: `k` is a keyed message, `u` one without a key.
fn bus(scripts: &[&str]) -> Bus {
    let mut id = 0;
    let mut script = |text: &&str| {
        let messages = text.chars().map(|kind| {
            id += 1;
            Message { id, keyed: kind == 'k' }
        });
        messages.collect()
    };
    Bus {
        scripts: scripts.iter().map(&mut script).collect(),
        workers: 2,
        limit: 2,
        max_attempts: 2,
        leased: false,
        locks: true,
        crashes: 0,
        expiries: 0,
        broken_rule: None,
        reached: Vec::new(),
    }
}

/// Checks every reachable state.
fn check(name: &str, bus: Bus) {
    let started = std::time::Instant::now();
    let checker = bus.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states in {} ms", checker.unique_state_count(), started.elapsed().as_millis());
    checker.assert_properties();
}

/// Checks that the broken rule leads to a state in which one of `properties` does not hold.
fn check_is_detected(bus: Bus, properties: &[&'static str]) {
    let failures = HasDiscoveries::AnyOf(properties.iter().copied().collect());
    let checker = bus.checker().finish_when(failures).spawn_bfs().join();
    let found = properties.iter().any(|name| checker.discovery(name).is_some());
    assert!(found, "the model cannot fail at {properties:?}");
}

#[test]
fn messages_that_commit_late_are_handled_once_and_in_order() {
    let reached = vec![ReachedState::Late];
    check("late", Bus { limit: 1, workers: 1, max_attempts: 1, reached, ..bus(&["uk", "k", "u"]) });
}

#[test]
fn followers_wait_behind_a_retry_of_their_key() {
    let reached = vec![ReachedState::Late, ReachedState::Parked, ReachedState::DeadLetter];
    check("retries", Bus { workers: 1, reached, ..bus(&["uk", "uk"]) });
    let reached = vec![ReachedState::Parked, ReachedState::DeadLetter];
    check("retries of three", Bus { workers: 1, limit: 1, reached, ..bus(&["kk", "k"]) });
}

#[test]
fn a_long_transaction_is_read_in_several_turns_without_repetition() {
    let reached = vec![ReachedState::Late];
    check("long", Bus { limit: 1, workers: 1, max_attempts: 1, reached, ..bus(&["uuku", "uk"]) });
}

#[test]
fn turns_survive_crashes_at_any_point() {
    let reached = vec![ReachedState::Late, ReachedState::Parked, ReachedState::Careful, ReachedState::DeadLetter];
    check("crashes", Bus { crashes: 3, workers: 1, reached, ..bus(&["uk", "k"]) });
}

#[test]
fn a_crash_among_late_messages_makes_the_lane_careful_and_repeats_none() {
    let reached = vec![ReachedState::Late, ReachedState::Careful];
    check("careful", Bus { crashes: 2, max_attempts: 1, workers: 1, reached, ..bus(&["uku", "uk"]) });
}

#[test]
fn without_the_lane_lock_the_turn_number_alone_prevents_double_effects() {
    let reached = vec![ReachedState::Late, ReachedState::Refused];
    check("refused", Bus { locks: false, limit: 1, max_attempts: 1, reached, ..bus(&["uk", "k"]) });
}

#[test]
fn expired_leases_are_taken_over_and_late_finishers_change_nothing() {
    let reached =
        vec![ReachedState::Parked, ReachedState::TakenOver, ReachedState::LateFinisher, ReachedState::DeadLetter];
    check("leases", Bus { leased: true, crashes: 1, expiries: 1, reached, ..bus(&["ku", "k"]) });
}

#[test]
fn a_lease_that_was_taken_over_can_be_taken_over_again() {
    let reached = vec![ReachedState::TakenOver, ReachedState::LateFinisher];
    check("takeovers", Bus { leased: true, crashes: 1, expiries: 2, max_attempts: 1, reached, ..bus(&["k", "u"]) });
}

#[test]
fn leased_followers_of_a_key_are_handled_one_after_the_other() {
    let reached = vec![ReachedState::Parked, ReachedState::Late];
    check("leased key", Bus { leased: true, max_attempts: 1, expiries: 1, reached, ..bus(&["uk", "kk"]) });
}

#[test]
fn a_cursor_that_forgets_open_transactions_is_detected() {
    let broken_rule = Some(BrokenRule::ForgetsOpenTransactions);
    check_is_detected(Bus { broken_rule, ..bus(&["u", "u"]) }, &[NOT_LOST]);
}

#[test]
fn a_reader_that_trusts_the_snapshots_list_of_open_transactions_is_detected() {
    let broken_rule = Some(BrokenRule::TrustsSnapshotList);
    check_is_detected(Bus { broken_rule, ..bus(&["u", "u"]) }, &[NOT_LOST]);
}

#[test]
fn a_turn_that_takes_new_messages_before_all_late_ones_is_detected() {
    let broken_rule = Some(BrokenRule::TakesNewBesideLate);
    let broken = Bus { broken_rule, limit: 1, workers: 1, max_attempts: 1, ..bus(&["uuu", "u"]) };
    check_is_detected(broken, &[ONCE]);
    let broken = Bus { broken_rule, limit: 1, workers: 1, max_attempts: 1, ..bus(&["ukk", "u"]) };
    check_is_detected(broken, &[IN_ORDER]);
}

#[test]
fn a_late_finisher_that_ignores_its_lease_number_is_detected() {
    let broken_rule = Some(BrokenRule::UnguardedLease);
    let broken = Bus { broken_rule, leased: true, expiries: 1, ..bus(&["u"]) };
    check_is_detected(broken, &[ONCE]);
}

#[test]
fn an_advance_that_does_not_check_for_later_turns_is_detected() {
    let broken_rule = Some(BrokenRule::PrimaryKeyOnly);
    let broken = Bus { broken_rule, locks: false, limit: 1, ..bus(&["u", "u"]) };
    check_is_detected(broken, &[ONCE]);
}
