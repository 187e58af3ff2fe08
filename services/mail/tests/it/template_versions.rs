//! The templates that come with the product, and the differences between two versions.

use onceward_mail::class::MailClass;
use onceward_mail::template::{CheckedTemplate, TemplateSource, diff, ready_templates};
use serde_json::json;

#[test]
fn a_diff_shows_the_changed_lines_and_declarations() {
    let old = TemplateSource {
        subject: "Hi".into(),
        html: Some("<p>a</p>\n<p>b</p>\n".into()),
        text: None,
        variables: serde_json::from_value(json!([
            {"name": "contact.first_name", "kind": "text"},
            {"name": "days_late", "kind": "integer"},
            {"name": "items", "kind": {"list": {"fields": {"label": "text"}}}},
        ]))
        .unwrap(),
    };
    let mut new = old.clone();
    assert!(diff(&old, &new).is_empty());
    new.html = Some("<p>a</p>\n<p>c</p>\n".into());
    new.text = Some("c".into());
    new.variables[0].default = Some(json!("you"));
    new.variables.pop();
    let found = diff(&old, &new);
    let html = found.html.unwrap();
    assert!(html.contains("-<p>b</p>") && html.contains("+<p>c</p>") && html.contains(" <p>a</p>"), "{html}");
    assert!(found.text.unwrap().contains("old (absent)"));
    assert_eq!(found.subject, None);
    let names: Vec<_> = found.variables.iter().map(|change| (change.name.as_str(), change.new.is_some())).collect();
    assert_eq!(names, [("contact.first_name", true), ("items", false)]);
}

#[test]
fn every_ready_template_is_accepted_and_renders() {
    for ready in ready_templates() {
        let class: MailClass = ready.class.parse().expect(ready.key);
        let template = CheckedTemplate::check(ready.source).unwrap_or_else(|found| panic!("{}: {found:?}", ready.key));
        assert_eq!(template.warnings(), [], "{}", ready.key);
        let mail = template.render(&template.resolve(&template.sample_variables()).unwrap()).unwrap();
        assert!(!mail.text.contains("\n\n\n") && !mail.text.contains("{{"), "{}: {}", ready.key, mail.text);
        let unsubscribes = mail.text.contains("/unsubscribe/") && mail.html.unwrap().contains("unsubscribe");
        assert_eq!(unsubscribes, class.needs_unsubscribe_link(), "{}", ready.key);
    }
}
