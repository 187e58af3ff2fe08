//! The cases that are checked, and the broken rules that must be found out.

use super::{
    Bus, Flaw,
    properties::{IN_ORDER, NOT_LOST, ONCE, Reach},
    world::Message,
};
use stateright::{Checker, HasDiscoveries, Model};

/// Scripts of publishers as text: `k` a keyed message, `u` one without a key.
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
        flaw: None,
        reaches: Vec::new(),
    }
}

/// Looks at every reachable state.
fn check(name: &str, bus: Bus) {
    let started = std::time::Instant::now();
    let checker = bus.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states in {} ms", checker.unique_state_count(), started.elapsed().as_millis());
    checker.assert_properties();
}

/// The broken rule leads to a state in which one of `properties` does not hold.
fn check_is_found_out(bus: Bus, properties: &[&'static str]) {
    let failures = HasDiscoveries::AnyOf(properties.iter().copied().collect());
    let checker = bus.checker().finish_when(failures).spawn_bfs().join();
    let found = properties.iter().any(|name| checker.discovery(name).is_some());
    assert!(found, "the model cannot fail at {properties:?}");
}

#[test]
fn whatever_commits_late_is_handled_once_and_in_order() {
    let reaches = vec![Reach::Late];
    check("late", Bus { limit: 1, workers: 1, max_attempts: 1, reaches, ..bus(&["uk", "k", "u"]) });
}

#[test]
fn followers_wait_behind_a_retry_of_their_key() {
    let reaches = vec![Reach::Late, Reach::Parked, Reach::DeadLetter];
    check("retries", Bus { workers: 1, reaches, ..bus(&["uk", "uk"]) });
    let reaches = vec![Reach::Parked, Reach::DeadLetter];
    check("retries of three", Bus { workers: 1, limit: 1, reaches, ..bus(&["kk", "k"]) });
}

#[test]
fn a_long_transaction_is_taken_in_several_turns_without_repeating_any() {
    let reaches = vec![Reach::Late];
    check("long", Bus { limit: 1, workers: 1, max_attempts: 1, reaches, ..bus(&["uuku", "uk"]) });
}

#[test]
fn turns_survive_crashes_at_any_point() {
    let reaches = vec![Reach::Late, Reach::Parked, Reach::Careful, Reach::DeadLetter];
    check("crashes", Bus { crashes: 3, workers: 1, reaches, ..bus(&["uk", "k"]) });
}

#[test]
fn a_crash_among_late_messages_makes_the_lane_careful_and_repeats_none() {
    let reaches = vec![Reach::Late, Reach::Careful];
    check("careful", Bus { crashes: 2, max_attempts: 1, workers: 1, reaches, ..bus(&["uku", "uk"]) });
}

#[test]
fn without_the_lanes_lock_the_turns_number_alone_prevents_double_effects() {
    let reaches = vec![Reach::Late, Reach::Fenced];
    check("fence", Bus { locks: false, limit: 1, max_attempts: 1, reaches, ..bus(&["uk", "k"]) });
}

#[test]
fn leases_are_rescued_and_late_finishers_change_nothing() {
    let reaches = vec![Reach::Parked, Reach::Rescued, Reach::LateFinisher, Reach::DeadLetter];
    check("leases", Bus { leased: true, crashes: 1, expiries: 1, reaches, ..bus(&["ku", "k"]) });
}

#[test]
fn a_lease_can_be_rescued_from_its_rescuer() {
    let reaches = vec![Reach::Rescued, Reach::LateFinisher];
    check("rescues", Bus { leased: true, crashes: 1, expiries: 2, max_attempts: 1, reaches, ..bus(&["k", "u"]) });
}

#[test]
fn leased_followers_of_a_key_come_one_after_the_other() {
    let reaches = vec![Reach::Parked, Reach::Late];
    check("leased key", Bus { leased: true, max_attempts: 1, expiries: 1, reaches, ..bus(&["uk", "kk"]) });
}

#[test]
fn a_cursor_that_forgets_open_transactions_is_found_out() {
    let flaw = Some(Flaw::ForgetsOpenTransactions);
    check_is_found_out(Bus { flaw, ..bus(&["u", "u"]) }, &[NOT_LOST]);
}

#[test]
fn a_reader_that_trusts_the_snapshots_list_of_open_transactions_is_found_out() {
    let flaw = Some(Flaw::TrustsTheList);
    check_is_found_out(Bus { flaw, ..bus(&["u", "u"]) }, &[NOT_LOST]);
}

#[test]
fn a_turn_that_takes_new_messages_beside_a_part_of_the_late_ones_is_found_out() {
    let flaw = Some(Flaw::TakesNewBesideLate);
    let broken = Bus { flaw, limit: 1, workers: 1, max_attempts: 1, ..bus(&["uuu", "u"]) };
    check_is_found_out(broken, &[ONCE]);
    let broken = Bus { flaw, limit: 1, workers: 1, max_attempts: 1, ..bus(&["ukk", "u"]) };
    check_is_found_out(broken, &[IN_ORDER]);
}

#[test]
fn a_late_finisher_that_ignores_its_leases_number_is_found_out() {
    let flaw = Some(Flaw::UnguardedLease);
    let broken = Bus { flaw, leased: true, expiries: 1, ..bus(&["u"]) };
    check_is_found_out(broken, &[ONCE]);
}

#[test]
fn a_fence_that_does_not_look_for_later_turns_is_found_out() {
    let flaw = Some(Flaw::PrimaryKeyOnly);
    let broken = Bus { flaw, locks: false, limit: 1, ..bus(&["u", "u"]) };
    check_is_found_out(broken, &[ONCE]);
}
