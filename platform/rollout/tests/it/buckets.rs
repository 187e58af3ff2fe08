//! What percentages select: nested sets, independent flags, whole orders.

use onceward_rollout::{
    ErrorCode, FlagContext, FlagRules, FlagState, Percentage, Reason, Selection, Snapshot, Unit, bucket_of,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn percentage(thousandths: u32) -> Percentage {
    Percentage::from_thousandths(thousandths).expect("at most 100 %")
}

fn rules(thousandths: u32) -> FlagRules {
    FlagRules { percentage: Some(percentage(thousandths)), ..FlagRules::default() }
}

fn is_on(thousandths: u32, salt: &str, tenant: &str) -> bool {
    rules(thousandths).decide(salt, Unit::Tenant, FlagContext::tenant(tenant)).selection == Selection::On
}

fn selected(thousandths: u32, salt: &str) -> BTreeSet<String> {
    (0..2_000).map(|n| format!("tenant-{n}")).filter(|tenant| is_on(thousandths, salt, tenant)).collect()
}

#[test]
fn a_tenant_is_selected_from_the_first_percentage_above_its_bucket() {
    assert!(!is_on(51_217, "async-loan-create", "globex"));
    assert!(is_on(51_218, "async-loan-create", "globex"));
}

#[test]
fn a_ramp_selects_nested_sets_and_the_same_tenants_after_a_stop() {
    let steps: Vec<BTreeSet<String>> = [1_000, 10_000, 50_000].map(|step| selected(step, "ramp")).into();
    assert!(steps[0].is_subset(&steps[1]) && steps[1].is_subset(&steps[2]), "every step keeps who was selected");
    assert!(!steps[0].is_empty() && steps[0].len() < steps[1].len());
    assert_eq!(selected(0, "ramp"), BTreeSet::new());
    assert_eq!(selected(1_000, "ramp"), steps[0], "a restart selects the same tenants");
}

#[test]
fn a_renamed_flag_keeps_its_salt_and_its_tenants() {
    let state = FlagState { salt: "old-name".to_owned(), unit: Unit::Tenant, rules: rules(30_000), version: 1 };
    let renamed: Snapshot = [("new-name".to_owned(), state)].into_iter().collect();
    let state = renamed.get("new-name").expect("it is stored");
    for n in 0..500 {
        let tenant = format!("tenant-{n}");
        let decision = state.rules.decide(&state.salt, state.unit, FlagContext::tenant(&tenant));
        assert_eq!(decision.selection == Selection::On, is_on(30_000, "old-name", &tenant));
    }
}

#[test]
fn nobody_and_everybody_need_no_targeting_key_and_any_other_percentage_does() {
    let decide = |thousandths| rules(thousandths).decide("salt", Unit::Tenant, FlagContext::default());
    assert_eq!((decide(0).selection, decide(0).reason), (Selection::Off, Reason::Static));
    assert_eq!((decide(100_000).selection, decide(100_000).reason), (Selection::On, Reason::Static));
    for context in [FlagContext::default(), FlagContext::tenant("")] {
        let decision = rules(99_999).decide("salt", Unit::Tenant, context);
        assert_eq!((decision.selection, decision.reason), (Selection::Default, Reason::Error));
        assert_eq!(decision.error, Some(ErrorCode::TargetingKeyMissing));
    }
}

#[test]
fn ordering_keys_are_selected_one_by_one_and_a_message_without_one_is_not_guessed() {
    let decide = |context: FlagContext<'_>| rules(50_000).decide("canary", Unit::OrderingKey, context);
    assert_eq!(decide(FlagContext::tenant("acme")).error, Some(ErrorCode::TargetingKeyMissing));
    for n in 0..200 {
        let key = format!("loan-{n}");
        let on = bucket_of("canary", &[&format!("acme:{key}")]) < 50_000;
        assert_eq!(decide(FlagContext::message("acme", &key)).selection == Selection::On, on);
    }
}

#[test]
fn twenty_flags_at_half_select_tenants_independently_of_each_other() {
    let tenants: Vec<String> = (0..10_000).map(|n| format!("tenant-{n}")).collect();
    let flags: Vec<Vec<bool>> = (0..20)
        .map(|flag| tenants.iter().map(|tenant| is_on(50_000, &format!("flag-{flag}"), tenant)).collect())
        .collect();
    // Both are on for a quarter of the tenants: 2,500 with a standard deviation of 43.3.
    for (n, first) in flags.iter().enumerate() {
        for second in &flags[n + 1..] {
            let both = first.iter().zip(second).filter(|(first, second)| **first && **second).count();
            assert!(both.abs_diff(2_500) < 174, "{both} tenants have both");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_higher_percentage_selects_everybody_whom_a_lower_one_selects(
        salt in "\\PC{1,30}",
        tenant in "[a-z0-9-]{1,64}",
        key in "\\PC{1,30}",
        (lower, higher) in (0..=100_000_u32).prop_flat_map(|higher| (0..=higher, Just(higher))),
    ) {
        for unit in [Unit::Tenant, Unit::OrderingKey] {
            let context = FlagContext::message(&tenant, &key);
            let on = |thousandths| rules(thousandths).decide(&salt, unit, context).selection == Selection::On;
            prop_assert!(!on(lower) || on(higher));
            prop_assert!(!on(0) && on(100_000));
        }
    }

    #[test]
    fn every_bucket_is_below_the_number_of_buckets(salt in "\\PC{0,20}", key in "\\PC{0,20}") {
        prop_assert!(bucket_of(&salt, &[&key]) < onceward_rollout::BUCKETS);
        prop_assert_eq!(bucket_of(&salt, &[&key]), bucket_of(&format!("{salt}{key}"), &[]));
    }
}
