//! The order of the rules, typed values, and the reason of every answer.

use jiff::civil::date;
use onceward_rollout::{
    ErrorCode, Evaluation, Flag, FlagContext, FlagKind, FlagRules, FlagState, FlagType, Object, Percentage, Reason,
    Selection, Snapshot, Unit,
};
use serde_json::{Value, json};

const SWITCH: Flag<bool> = Flag::new("switch", false).expires(date(2027, 6, 30));
const ACME: FlagContext<'_> = FlagContext::tenant("acme");

fn snapshot(key: &str, rules: FlagRules) -> Snapshot {
    let state = FlagState { salt: key.to_owned(), unit: Unit::Tenant, rules, version: 7 };
    [(key.to_owned(), state)].into_iter().collect()
}

fn evaluate<T: FlagType>(flag: &Flag<T>, rules: FlagRules) -> Evaluation<T::Answer> {
    snapshot(flag.key(), rules).evaluate(flag, ACME, false)
}

fn everybody(value: Option<Value>) -> FlagRules {
    FlagRules { percentage: Some(Percentage::EVERYBODY), value, ..FlagRules::default() }
}

#[test]
fn the_kill_switch_wins_over_the_list_which_wins_over_the_percentage_which_wins_over_the_default() {
    let mut rules = FlagRules {
        is_killed: true,
        tenants: ["acme".to_owned()].into(),
        percentage: Some(Percentage::NOBODY),
        value: None,
    };
    // The default is on, so that each rule is seen to win over it.
    let flag = SWITCH.with_default(true);
    let mut answers = Vec::new();
    for step in 0..4 {
        rules.is_killed &= step < 1;
        if step == 2 {
            rules.tenants.clear();
        }
        rules.percentage = rules.percentage.filter(|_| step < 3);
        let evaluation = evaluate(&flag, rules.clone());
        answers.push((evaluation.value, evaluation.reason.name(), evaluation.selection.variant()));
    }
    let expected = [
        (false, "DISABLED", "off"),
        (true, "TARGETING_MATCH", "on"),
        (false, "STATIC", "off"),
        (true, "DEFAULT", "default"),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn a_percentage_between_answers_with_split() {
    let rules = FlagRules { percentage: "32.848".parse().ok(), ..FlagRules::default() };
    let flag = Flag::new("crm.email.v2", false);
    assert_eq!((evaluate(&flag, rules.clone()).value, evaluate(&flag, rules).reason), (false, Reason::Split));
    let rules = FlagRules { percentage: "32.849".parse().ok(), ..FlagRules::default() };
    assert_eq!((evaluate(&flag, rules.clone()).value, evaluate(&flag, rules).reason), (true, Reason::Split));
}

#[test]
fn every_type_is_answered_with_the_value_of_the_rules() {
    assert!(evaluate(&SWITCH, everybody(None)).value);
    assert!(!evaluate(&SWITCH, everybody(Some(json!(false)))).value);
    assert_eq!(evaluate(&Flag::new("text", "old"), everybody(Some(json!("new")))).value, "new");
    assert_eq!(evaluate(&Flag::new("limit", 10), everybody(Some(json!(25)))).value, 25);
    assert_eq!(evaluate(&Flag::new("ratio", 0.5), everybody(Some(json!(1)))).value, 1.0);
    let object = Flag::new("object", Object(r#"{"a": 1}"#));
    assert_eq!(evaluate(&object, everybody(Some(json!({"a": 2})))).value, json!({"a": 2}));
    assert_eq!(evaluate(&object, FlagRules::default()).value, json!({"a": 1}));
}

#[test]
fn a_killed_flag_has_the_value_that_the_code_declares_for_it() {
    let killed = FlagRules { is_killed: true, ..everybody(Some(json!(25))) };
    assert_eq!(evaluate(&Flag::new("limit", 10), killed.clone()).value, 10);
    assert_eq!(evaluate(&Flag::new("limit", 10).off(0), killed).value, 0);
}

#[test]
fn a_value_of_another_type_is_answered_with_the_default_and_an_error() {
    let evaluation = evaluate(&Flag::new("limit", 10), everybody(Some(json!("many"))));
    assert_eq!((evaluation.value, evaluation.selection), (10, Selection::Default));
    assert_eq!((evaluation.reason, evaluation.error), (Reason::Error, Some(ErrorCode::TypeMismatch)));
    let without_value = evaluate(&Flag::new("limit", 10), everybody(None));
    assert_eq!((without_value.value, without_value.error), (10, Some(ErrorCode::TypeMismatch)));
}

#[test]
fn an_unknown_flag_is_answered_with_its_default() {
    let evaluation = Snapshot::default().evaluate(&SWITCH.with_default(true), ACME, false);
    assert_eq!((evaluation.value, evaluation.reason, evaluation.version), (true, Reason::Default, 0));
}

#[test]
fn a_process_that_never_read_any_rules_answers_with_the_default_and_an_error() {
    let evaluation = Snapshot::missing(&SWITCH.with_default(true));
    assert_eq!((evaluation.value, evaluation.reason), (true, Reason::Error));
    assert_eq!(evaluation.error.map(ErrorCode::name), Some("PROVIDER_NOT_READY"));
}

#[test]
fn stale_rules_decide_as_before_and_say_so() {
    let evaluation = snapshot("switch", everybody(None)).evaluate(&SWITCH, ACME, true);
    assert_eq!((evaluation.value, evaluation.reason, evaluation.version), (true, Reason::Stale, 7));
}

#[test]
fn rules_that_could_not_be_applied_are_refused() {
    assert!(everybody(None).validate(FlagKind::Boolean).is_empty());
    assert!(everybody(None).validate(FlagKind::String)[0].contains("needs a value"));
    assert!(everybody(Some(json!(1.5))).validate(FlagKind::Integer)[0].contains("not of the type integer"));
    assert!(FlagRules::default().validate(FlagKind::Object).is_empty());
    let nameless = FlagRules { tenants: [String::new()].into(), ..FlagRules::default() };
    let state = FlagState { salt: String::new(), unit: Unit::Tenant, rules: nameless, version: 0 };
    assert_eq!(state.validate(FlagKind::Boolean).len(), 2, "a salt and a tenant are not empty");
}

#[test]
fn declarations_with_a_wrong_key_or_default_are_reported() {
    assert!(SWITCH.declaration().validate().is_empty());
    assert_eq!(SWITCH.declaration().expires, Some(date(2027, 6, 30)));
    assert!(Flag::new("Has Spaces", true).declaration().validate()[0].contains("a key has"));
    assert_eq!(Flag::new("object", Object("[1]")).declaration().validate().len(), 2);
}
