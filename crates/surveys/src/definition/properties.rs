//! What holds for every definition and every respondent.

use super::*;
use proptest::{collection::vec, prelude::*, sample::Index};
use serde_json::{Map, Value, json};

/// Page `n` asks `s<n>` (a choice), `n<n>` (a number) and `m<n>` (choices). Routes lead forward and decide by what was asked.
fn definitions() -> impl Strategy<Value = Definition> {
    (1..7_usize).prop_flat_map(|pages| {
        let routes = (0..pages).map(move |page| vec(route(page, pages), 0..3)).collect::<Vec<_>>();
        routes.prop_map(|routes| Definition {
            pages: routes.into_iter().enumerate().map(|(index, routes)| page(index, routes)).collect(),
        })
    })
}

fn page(index: usize, routes: Vec<Route>) -> Page {
    let options = json!([{"id": "a", "label": "A"}, {"id": "b", "label": "B"}, {"id": "c", "label": "C"}]);
    let questions = json!([
        {"id": format!("s{index}"), "text": "?", "type": "single", "options": options},
        {"id": format!("n{index}"), "text": "?", "type": "number", "min": 0, "max": 9},
        {"id": format!("m{index}"), "text": "?", "type": "multiple", "options": options},
    ]);
    let questions = serde_json::from_value(questions).expect("questions");
    Page { id: format!("p{index}"), title: None, questions, routes }
}

fn route(page: usize, pages: usize) -> impl Strategy<Value = Route> {
    let forward = (page + 1..pages + 2).prop_map(move |to| match to {
        to if to < pages => Target::Page(format!("p{to}")),
        to if to == pages => Target::Complete,
        _ => Target::ScreenOut,
    });
    // Always with a condition, so that every page can be reached by the one before it.
    (condition(page), forward).prop_map(|(when, then)| Route { when: Some(when), then })
}

/// Decides by questions of pages up to `last`.
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

/// What a respondent would answer on each page.
fn minds() -> impl Strategy<Value = Answers> {
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

/// Submits page after page as the way leads; gives every state on the way.
fn walk(form: &Form, mind: &Answers) -> Vec<(Way, Answers)> {
    let mut answers = Answers::new();
    let mut states = vec![(form.way(&answers), answers.clone())];
    while let Stop::At(page) = states.last().expect("the first").0.stop {
        let id = &form.page(page).id;
        let kept = form.read_page(page, &mind[id]).expect("valid answers");
        assert!(answers.insert(id.clone(), kept).is_none(), "no page comes twice");
        states.push((form.way(&answers), answers.clone()));
    }
    states
}

proptest! {
    #[test]
    fn every_way_has_an_end_and_never_more_pages_than_were_promised(definition in definitions(), mind in minds()) {
        let form = Form::new(definition).expect("nothing is wrong with it");
        let states = walk(&form, &mind);
        for (steps, (way, _)) in states.iter().enumerate() {
            prop_assert_eq!(way.pages.len(), steps);
            prop_assert!(states.len() - 1 - steps <= form.pages_left(way));
        }
    }

    #[test]
    fn what_is_answered_beside_the_way_does_not_count(definition in definitions(), mind in minds(), quota in condition(6)) {
        let form = Form::new(definition).expect("nothing is wrong with it");
        for (way, answers) in walk(&form, &mind) {
            let mut more = answers.clone();
            let beside = |page: &usize| !way.pages.contains(page) && way.stop != Stop::At(*page);
            for page in (0..form.definition().pages.len()).filter(beside) {
                more.insert(format!("p{page}"), mind[&format!("p{page}")].clone());
            }
            prop_assert_eq!(&form.way(&more), &way);
            prop_assert_eq!(form.holds(&quota, &way, &more), form.holds(&quota, &way, &answers));
        }
    }

    #[test]
    fn what_is_decided_stays_decided_for_who_goes_forward(definition in definitions(), mind in minds(), quota in condition(6)) {
        let form = Form::new(definition).expect("nothing is wrong with it");
        let decisions: Vec<_> =
            walk(&form, &mind).iter().map(|(way, answers)| form.holds(&quota, way, answers)).collect();
        let first = decisions.iter().position(Option::is_some).expect("the end decides everything");
        prop_assert!(decisions[first..].iter().all(|decision| *decision == decisions[first]), "{:?}", decisions);
    }

    #[test]
    fn a_route_that_leads_back_is_found(mut definition in definitions(), from in any::<Index>(), to in any::<Index>()) {
        let from = from.index(definition.pages.len());
        let to = to.index(from + 1);
        let route = Route { when: Some(Condition::All(Vec::new())), then: Target::Page(format!("p{to}")) };
        definition.pages[from].routes.push(route);
        let faults = Form::new(definition).expect_err("a loop");
        let place = format!("pages[{from}].routes");
        prop_assert!(faults.iter().any(|fault| fault.place == place && fault.message.contains("loop")), "{:?}", faults);
    }

    #[test]
    fn whatever_is_submitted_what_is_kept_may_be_submitted_again(definition in definitions(), given in anything(4)) {
        let form = Form::new(definition).expect("nothing is wrong with it");
        if let Ok(kept) = form.read_page(0, &given) {
            prop_assert_eq!(form.read_page(0, &kept), Ok(kept));
        }
    }

    #[test]
    fn a_definition_is_read_as_it_was_written(definition in definitions()) {
        let text = json!(definition);
        prop_assert_eq!(serde_json::from_value::<Definition>(text).expect("it is read"), definition);
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
