//! Properties of templates: every typing error in a placeholder is found, and what was checked always renders.

use onceward_mail::template::{CheckedTemplate, TemplateSource, VariableDeclaration, VariableKind, ready_templates};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The letters that a hand could hit instead of, or beside, the right one.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/// Returns every name that differs from `name` by one letter replaced, inserted, deleted or swapped with its neighbour.
fn mutations(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut found = Vec::new();
    for at in 0..=letters.len() {
        for letter in LETTERS.chars() {
            let mut longer = letters.clone();
            longer.insert(at, letter);
            found.push(longer);
            if at < letters.len() {
                let mut replaced = letters.clone();
                replaced[at] = letter;
                found.push(replaced);
            }
        }
        if at < letters.len() {
            let mut shorter = letters.clone();
            shorter.remove(at);
            found.push(shorter);
        }
        if at + 1 < letters.len() {
            let mut swapped = letters.clone();
            swapped.swap(at, at + 1);
            found.push(swapped);
        }
    }
    let names = found.into_iter().map(|letters| letters.into_iter().collect::<String>());
    names.filter(|mutated| mutated != name).collect()
}

/// Returns where names stand in the tags of a part: every dotted name except words of the language and filters.
fn placeholders(text: &str) -> Vec<std::ops::Range<usize>> {
    const WORDS: &[&str] = &["if", "elif", "else", "endif", "for", "in", "endfor", "and", "or", "not"];
    let mut found = Vec::new();
    for tag in ["{{", "{%"].iter().flat_map(|open| text.match_indices(open)).map(|(at, _)| at + 2) {
        let end = tag + text[tag..].find(['}', '%']).unwrap();
        let mut at = tag;
        let (mut in_quotes, mut after_bar) = (false, false);
        while at < end {
            let letter = text[at..].chars().next().unwrap();
            let length = text[at..end].find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
            let word = &text[at..at + length.unwrap_or(end - at)];
            in_quotes ^= letter == '"' || letter == '\'';
            if letter.is_ascii_alphabetic() && !in_quotes {
                if !after_bar && !WORDS.contains(&word) {
                    found.push(at..at + word.len());
                }
                after_bar = false;
                at += word.len();
            } else {
                after_bar |= letter == '|';
                at += letter.len_utf8();
            }
        }
    }
    found
}

/// A template that uses every form of the language, with names that are near words of the language and each other.
fn every_form() -> TemplateSource {
    let variables = json!([
        {"name": "contact.name", "kind": "text"},
        {"name": "tru", "kind": "text"},
        {"name": "nt", "kind": "boolean"},
        {"name": "ab.x1", "kind": "integer"},
        {"name": "orr", "kind": "boolean"},
        {"name": "link", "kind": "url"},
        {"name": "total", "kind": "money"},
        {"name": "day", "kind": "date"},
        {"name": "lines", "kind": {"list": {"fields": {"label": "text", "count": "integer"}}}},
    ]);
    let text = "{{ contact.name }}{{tru|upper}}{{- day | date('iso') -}}{% if nt %}{{ total | money(\"code\") }}\
        {% elif not orr and (ab.x1 >= 2 or tru == 'x') %}{{ ab.x1 }}{% else %}{{ day }}{% endif %}\
        {%- for line in lines -%}{{ loop.index }}{{ line.label }}{% if line.count != ab.x1 and not loop.last %},{% endif %}\
        {% else %}{{ lines | length }}{% endfor %}{# a note #}";
    let html = "<p title=\"{{ contact.name }}\"><a href=\"{{ link }}\">{{ tru }}</a>\
        <a href=\"https://e.com/?q={{ tru | urlencode }}&amp;n={{ ab.x1 }}\">x</a></p>";
    TemplateSource {
        subject: "{{ contact.name }}: {{ total }}".into(),
        html: Some(html.into()),
        text: Some(text.into()),
        variables: serde_json::from_value(variables).unwrap(),
    }
}

/// Checks every mutation of every placeholder in one part; returns how many were checked.
fn check_mutations(source: &TemplateSource, part: &str, set: impl Fn(&mut TemplateSource, String)) -> usize {
    let declared: Vec<&str> = source.variables.iter().map(|variable| variable.name.as_str()).collect();
    let mut checked = 0;
    for place in placeholders(part) {
        for mutated in mutations(&part[place.clone()]) {
            if declared.contains(&mutated.as_str()) {
                continue;
            }
            let text = format!("{}{mutated}{}", &part[..place.start], &part[place.end..]);
            let mut changed = source.clone();
            set(&mut changed, text.clone());
            assert!(CheckedTemplate::check(changed).is_err(), "accepted {mutated} in {text}");
            checked += 1;
        }
    }
    checked
}

#[test]
fn every_single_letter_mutation_of_every_placeholder_is_refused() {
    let source = every_form();
    CheckedTemplate::check(source.clone()).unwrap();
    // One part at a time, so that a problem in another part cannot hide that a mutation was accepted.
    let only = |html: Option<String>, text: Option<String>| TemplateSource { html, text, ..source.clone() };
    let subject = TemplateSource { html: None, text: Some("x".into()), ..source.clone() };
    let mut checked = check_mutations(&subject, &source.subject, |source, text| source.subject = text);
    let html = source.html.clone().unwrap();
    checked += check_mutations(&only(Some(html.clone()), None), &html, |source, text| source.html = Some(text));
    let text = source.text.clone().unwrap();
    checked += check_mutations(&only(None, Some(text.clone())), &text, |source, changed| source.text = Some(changed));
    assert!(checked > 10_000, "{checked}");
}

#[test]
fn mutations_of_the_ready_templates_are_refused() {
    for ready in ready_templates() {
        let text = ready.source.text.clone().unwrap();
        let source = TemplateSource { html: None, ..ready.source };
        // All mutations of each placeholder once: repeated ones differ only in their line.
        let mut seen = std::collections::BTreeSet::new();
        for place in placeholders(&text) {
            let name = &text[place.clone()];
            if !seen.insert(name.to_owned()) {
                continue;
            }
            for mutated in mutations(name).into_iter().step_by(29) {
                let is_declared = source.variables.iter().any(|variable| variable.name == mutated);
                let changed = format!("{}{mutated}{}", &text[..place.start], &text[place.end..]);
                let changed = TemplateSource { text: Some(changed), ..source.clone() };
                assert!(is_declared || CheckedTemplate::check(changed).is_err(), "{}: {mutated}", ready.key);
            }
        }
    }
}

/// Generates any value of a kind.
fn value_of(kind: &VariableKind) -> BoxedStrategy<Value> {
    match kind {
        VariableKind::Text => "[^\\p{Cc}\\p{Zl}\\p{Zp}]{0,30}".prop_map(Value::from).boxed(),
        VariableKind::Integer => any::<i64>().prop_map(Value::from).boxed(),
        VariableKind::Money => ("-?[0-9]{1,20}", "[A-Z]{3}")
            .prop_map(|(amount, currency)| json!({"amountMinor": amount, "currency": currency}))
            .boxed(),
        VariableKind::Date => (1i32..=9999, 1u32..=12, 1u32..=28)
            .prop_map(|(year, month, day)| Value::from(format!("{year:04}-{month:02}-{day:02}")))
            .boxed(),
        VariableKind::Boolean => any::<bool>().prop_map(Value::from).boxed(),
        VariableKind::Url => "(https://|mailto:)[a-z0-9./?&=%'-]{1,40}".prop_map(Value::from).boxed(),
        VariableKind::List { fields } => {
            let fields: Vec<_> = fields.iter().map(|(name, kind)| (Just(name.clone()), value_of(kind))).collect();
            let item = fields.prop_map(|fields| Value::Object(fields.into_iter().collect()));
            prop::collection::vec(item, 0..4).prop_map(Value::from).boxed()
        }
    }
}

fn variables_of(declarations: &[VariableDeclaration]) -> BoxedStrategy<Map<String, Value>> {
    let values: Vec<_> =
        declarations.iter().map(|variable| (Just(variable.name.clone()), value_of(&variable.kind))).collect();
    let nested = values.prop_map(|values| {
        let mut root = Map::new();
        for (name, value) in values {
            match name.split_once('.') {
                None => drop(root.insert(name, value)),
                Some((group, field)) => root.entry(group).or_insert_with(|| json!({}))[field] = value,
            }
        }
        root
    });
    nested.boxed()
}

fn templates() -> Vec<TemplateSource> {
    let ready = ready_templates().into_iter().map(|ready| ready.source);
    ready.chain([every_form()]).collect()
}

fn template_and_variables() -> impl Strategy<Value = (TemplateSource, Map<String, Value>)> {
    let templates = templates();
    (0..templates.len()).prop_flat_map(move |index| {
        let source = templates[index].clone();
        let variables = variables_of(&source.variables);
        (Just(source), variables)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_was_checked_and_resolved_always_renders((source, variables) in template_and_variables()) {
        let template = CheckedTemplate::check(source).unwrap();
        let resolved = template.resolve(&variables).unwrap_or_else(|found| panic!("{found:?} {variables:?}"));
        let mail = template.render(&resolved).unwrap();
        prop_assert!(!mail.text.contains("None") && !mail.subject.contains('\n'));
    }

    #[test]
    fn checking_any_text_returns_and_what_it_accepts_renders(
        subject in ".{1,20}",
        text in "([a-z {}%#|.\"'()<>=-]|contact|name|if|for|in|endif|endfor|\\{\\{|\\}\\}|\\{%|%\\}){0,40}",
    ) {
        let source = TemplateSource { subject, html: Some(text.clone()), text: Some(text), ..every_form() };
        if let Ok(template) = CheckedTemplate::check(source) {
            let resolved = template.resolve(&template.sample_variables()).unwrap();
            prop_assert!(template.render(&resolved).is_ok());
        }
    }
}
