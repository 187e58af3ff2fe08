//! Properties that hold for every definition and every respondent.

use super::*;
use proptest::{collection::vec, prelude::*, sample::Index};
use serde_json::{Map, Value, json};

/// Page `n` asks `s<n>` (a choice), `n<n>` (a number) and `m<n>` (choices). Routes lead forward and depend on earlier
/// questions.
fn definitions() -> impl Strategy<Value = SurveyDefinition> {
    (1..7_usize).prop_flat_map(|pages| {
        let routes = (0..pages).map(move |page| vec(route(page, pages), 0..3)).collect::<Vec<_>>();
        routes.prop_map(|routes| SurveyDefinition {
            pages: routes.into_iter().enumerate().map(|(index, routes)| page(index, routes)).collect(),
        })
    })
}

fn page(index: usize, routes: Vec<PageRoute>) -> SurveyPage {
    let options = json!([{"id": "a", "label": "A"}, {"id": "b", "label": "B"}, {"id": "c", "label": "C"}]);
    let questions = json!([
        {"id": format!("s{index}"), "text": "?", "type": "single", "options": options},
        {"id": format!("n{index}"), "text": "?", "type": "number", "min": 0, "max": 9},
        {"id": format!("m{index}"), "text": "?", "type": "multiple", "options": options},
    ]);
    let questions = serde_json::from_value(questions).expect("questions");
    SurveyPage { id: format!("p{index}"), title: None, questions, routes }
}

fn route(page: usize, pages: usize) -> impl Strategy<Value = PageRoute> {
    let forward = (page + 1..pages + 2).prop_map(move |to| match to {
        to if to < pages => RouteTarget::Page(format!("p{to}")),
        to if to == pages => RouteTarget::Complete,
        _ => RouteTarget::ScreenOut,
    });
    // Always with a condition, so that every page can be reached from the one before it.
    (condition(page), forward).prop_map(|(when, then)| PageRoute { when: Some(when), then })
}

/// A condition on questions of pages up to `last`.
fn condition(last: usize) -> impl Strategy<Value = Condition> {
    let leaf = (0..=last, 0..5_u8, 0..10_i64, any::<Index>()).prop_map(|(page, kind, number, choice)| {
        let choice = json!(["a", "b", "c"][choice.index(3)]);
        let read = |value: Value| serde_json::from_value(value).expect("a condition");
        match kind {
            0 => read(json!({"equals": {"question": format!("s{page}"), "value": choice}})),
            1 => read(json!({"at_least": {"question": format!("n{page}"), "value": number}})),
            2 => read(json!({"at_most": {"question": format!("n{page}"), "value": number}})),
            3 => read(json!({"one_of": {"question": format!("m{page}"), "values": [choice, "a"]}})),
            _ => read(json!({"answered": {"question": format!("m{page}")}})),
        }
    });
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Condition::All),
            vec(inner.clone(), 0..3).prop_map(Condition::Any),
            inner.prop_map(|part| Condition::Not(Box::new(part))),
        ]
    })
}

/// The answers that a respondent would submit on each page.
fn intended_answers() -> impl Strategy<Value = AnswersByPage> {
    let choice = proptest::option::of(prop_oneof![Just("a"), Just("b"), Just("c")]);
    let many = proptest::sample::subsequence(vec!["a", "b", "c"], 0..4);
    vec((choice, proptest::option::of(0..10), many), 7).prop_map(|pages| {
        let pages = pages.into_iter().enumerate().map(|(index, (single, number, many))| {
            let given = json!({format!("s{index}"): single, format!("n{index}"): number, format!("m{index}"): many});
            (format!("p{index}"), given.as_object().expect("an object").clone())
        });
        pages.collect()
    })
}

/// Submits pages along the path, and returns every state on it.
fn walk(questionnaire: &Questionnaire, intended: &AnswersByPage) -> Vec<(SurveyPath, AnswersByPage)> {
    let mut answers = AnswersByPage::new();
    let mut states = vec![(questionnaire.path(&answers), answers.clone())];
    while let PathEnd::AtPage(page) = states.last().expect("the start").0.end {
        let id = &questionnaire.page(page).id;
        let accepted = questionnaire.check_page(page, &intended[id]).expect("valid answers");
        assert!(answers.insert(id.clone(), accepted).is_none(), "no page is visited twice");
        states.push((questionnaire.path(&answers), answers.clone()));
    }
    states
}

proptest! {
    #[test]
    fn every_path_ends_within_the_announced_number_of_pages(definition in definitions(), intended in intended_answers()) {
        let questionnaire = Questionnaire::new(definition).expect("the definition is valid");
        let states = walk(&questionnaire, &intended);
        for (steps, (path, _)) in states.iter().enumerate() {
            prop_assert_eq!(path.pages.len(), steps);
            prop_assert!(states.len() - 1 - steps <= questionnaire.pages_left(path));
        }
    }

    #[test]
    fn answers_off_the_path_do_not_count(definition in definitions(), intended in intended_answers(), quota in condition(6)) {
        let questionnaire = Questionnaire::new(definition).expect("the definition is valid");
        for (path, answers) in walk(&questionnaire, &intended) {
            let mut more = answers.clone();
            let off_path = |page: &usize| !path.pages.contains(page) && path.end != PathEnd::AtPage(*page);
            for page in (0..questionnaire.definition().pages.len()).filter(off_path) {
                more.insert(format!("p{page}"), intended[&format!("p{page}")].clone());
            }
            prop_assert_eq!(&questionnaire.path(&more), &path);
            prop_assert_eq!(questionnaire.holds(&quota, &path, &more), questionnaire.holds(&quota, &path, &answers));
        }
    }

    #[test]
    fn a_decided_condition_stays_decided_while_the_respondent_goes_forward(definition in definitions(), intended in intended_answers(), quota in condition(6)) {
        let questionnaire = Questionnaire::new(definition).expect("the definition is valid");
        let decisions: Vec<_> =
            walk(&questionnaire, &intended).iter().map(|(path, answers)| questionnaire.holds(&quota, path, answers)).collect();
        let first = decisions.iter().position(Option::is_some).expect("everything is decided at the end");
        prop_assert!(decisions[first..].iter().all(|decision| *decision == decisions[first]), "{:?}", decisions);
    }

    #[test]
    fn a_route_that_leads_back_is_reported(mut definition in definitions(), from in any::<Index>(), to in any::<Index>()) {
        let from = from.index(definition.pages.len());
        let to = to.index(from + 1);
        let route = PageRoute { when: Some(Condition::All(Vec::new())), then: RouteTarget::Page(format!("p{to}")) };
        definition.pages[from].routes.push(route);
        let faults = Questionnaire::new(definition).expect_err("a loop");
        let pointer = format!("/pages/{from}/routes");
        prop_assert!(faults.iter().any(|fault| fault.pointer == pointer && fault.message.contains("loop")), "{:?}", faults);
    }

    #[test]
    fn accepted_answers_are_accepted_unchanged_when_submitted_again(definition in definitions(), given in anything(4)) {
        let questionnaire = Questionnaire::new(definition).expect("the definition is valid");
        if let Ok(accepted) = questionnaire.check_page(0, &given) {
            prop_assert_eq!(questionnaire.check_page(0, &accepted), Ok(accepted));
        }
    }

    #[test]
    fn a_definition_is_parsed_as_it_was_serialized(definition in definitions()) {
        let text = json!(definition);
        prop_assert_eq!(serde_json::from_value::<SurveyDefinition>(text).expect("the definition is parsed"), definition);
    }
}

fn anything(most: usize) -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-20..20_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[abc\0]{0,2}".prop_map(Value::from),
        vec("[abc]", 0..3).prop_map(Value::from),
        Just(json!({"a": "b"})),
    ];
    let name = prop_oneof![Just("s0"), Just("n0"), Just("m0"), Just("other")];
    vec((name, value), 0..most).prop_map(|all| all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
