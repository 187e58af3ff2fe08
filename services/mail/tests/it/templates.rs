//! Templates: what is refused when they are saved, what is refused when a mail is requested, and what is rendered.

use onceward_mail::template::{CheckedTemplate, TemplatePart, TemplateProblem, TemplateSource, VariableDeclaration};
use serde_json::{Map, Value, json};

/// Builds a template whose variables are those of most tests.
fn source(subject: &str, html: Option<&str>, text: Option<&str>) -> TemplateSource {
    let variables = json!([
        {"name": "contact.first_name", "kind": "text", "example": "Ana"},
        {"name": "contact.last_name", "kind": "text", "default": "customer"},
        {"name": "payment.amount", "kind": "money"},
        {"name": "payment.date", "kind": "date"},
        {"name": "days_late", "kind": "integer", "default": 0},
        {"name": "is_late", "kind": "boolean", "default": false},
        {"name": "account_url", "kind": "url"},
        {"name": "items", "kind": {"list": {"fields": {"label": "text", "amount": "money"}}}, "default": []},
    ]);
    let variables: Vec<VariableDeclaration> = serde_json::from_value(variables).unwrap();
    TemplateSource {
        subject: subject.to_owned(),
        html: html.map(str::to_owned),
        text: text.map(str::to_owned),
        variables,
    }
}

fn problems(subject: &str, html: Option<&str>, text: Option<&str>) -> Vec<TemplateProblem> {
    CheckedTemplate::check(source(subject, html, text)).err().unwrap_or_default()
}

fn text_template(text: &str) -> CheckedTemplate {
    CheckedTemplate::check(source("Hello", None, Some(text))).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn provided() -> Map<String, Value> {
    object(json!({
        "contact": {"first_name": "Ana"},
        "payment": {"amount": {"amountMinor": "123456", "currency": "USD"}, "date": "2026-11-05"},
        "account_url": "https://example.com/a?b=1&c=2",
    }))
}

#[track_caller]
fn refused(part: TemplatePart, text: &str, expected: &str) {
    let found = match part {
        TemplatePart::Subject => problems(text, None, Some("Hello")),
        TemplatePart::Html => problems("Hello", Some(text), Some("Hello")),
        _ => problems("Hello", None, Some(text)),
    };
    assert!(!found.is_empty(), "accepted: {text}");
    assert!(found.iter().any(|problem| problem.to_string().contains(expected)), "{text}: {found:?}");
}

#[track_caller]
fn accepted(html: &str) {
    assert_eq!(problems("Hello", Some(html), Some("Hello")), [], "{html}");
}

#[test]
fn a_misspelt_placeholder_is_refused_with_its_line_and_the_nearest_name() {
    let found = problems("Hello", None, Some("Hello\nDear {{ contact.frist_name }}"));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].part, found[0].line), (TemplatePart::Text, Some(2)));
    assert_eq!(found[0].placeholder.as_deref(), Some("contact.frist_name"));
    assert_eq!(found[0].nearest.as_deref(), Some("contact.first_name"));
    assert!(found[0].message.contains("Did you mean `contact.first_name`?"));
}

#[test]
fn all_problems_of_all_parts_are_reported_at_once() {
    let found = problems("{{ day_late }}", Some("<p>{{ contact.name }}</p>\n{% include x %}"), Some("{{ isate }}"));
    let parts: Vec<_> = found.iter().map(|problem| (problem.part, problem.line)).collect();
    let expected = [
        (TemplatePart::Subject, Some(1)),
        (TemplatePart::Html, Some(1)),
        (TemplatePart::Html, Some(2)),
        (TemplatePart::Text, Some(1)),
    ];
    assert_eq!(parts, expected);
}

#[test]
fn unknown_names_are_found_wherever_they_stand() {
    for text in [
        "{% if is_lat %}x{% endif %}",
        "{% if is_late %}x{% elif day_late > 3 %}y{% endif %}",
        "{% if not (is_late and contact.nam == \"x\") %}x{% endif %}",
        "{% if days_late > contact.days %}x{% endif %}",
        "{% for item in itms %}{{ item.label }}{% endfor %}",
        "{% for item in items %}{{ item.lable }}{% endfor %}",
        "{% for item in items %}{{ itme.label }}{% endfor %}",
        "{% for item in items %}{{ item.label }}{% endfor %}{{ item.label }}",
        "{% for item in items %}{{ item.label }}{% else %}{{ item.label }}{% endfor %}",
        "{% for item in items %}{{ item.label }}{{ loop.indx }}{% endfor %}",
        "{{ loop.index }}",
        "{{ contact }}",
        "{{ contact.first_name.length }}",
        "{{ payment.amount.currency }}",
        "{{ Contact.first_name }}",
        "{# fine #}{{- contact.frst_name -}}",
        "{{contact.first_nam}}",
    ] {
        let found = problems("Hello", None, Some(text));
        assert!(found.iter().any(|problem| problem.placeholder.is_some()), "{text}: {found:?}");
    }
}

#[test]
fn what_could_hide_a_name_is_not_part_of_the_language() {
    for (text, expected) in [
        ("{{ contact[days_late] }}", "subscript"),
        ("{{ contact['first_name'] }}", "subscript"),
        ("{{ contact.first_name | default('x') }}", "would hide"),
        ("{% if contact.first_name is defined %}x{% endif %}", "is defined"),
        ("{{ 'x' if is_late }}", "outside the braces"),
        ("{{ contact.first_name if is_late }}", "inline `if`"),
        ("{% set name = contact.first_name %}", "`set` is not available"),
        ("{% with name = contact.first_name %}x{% endwith %}", "`with` is not available"),
        ("{% include 'footer' %}", "`include` is not available"),
        ("{% extends 'base' %}", "`extends` is not available"),
        ("{% block body %}{% endblock %}", "`block` is not available"),
        ("{% macro a() %}{% endmacro %}", "`macro` is not available"),
        ("{% import 'x' as y %}", "`import` is not available"),
        ("{% raw %}{{ x }}{% endraw %}", "`raw` is not available"),
        ("{% autoescape false %}x{% endautoescape %}", "`autoescape` is not available"),
        ("{{ range(10) }}", "Functions are not available"),
        ("{{ contact.first_name | uper }}", "Did you mean `upper`?"),
        ("{{ days_late | money }}", "cannot be applied"),
        ("{{ payment.date | date(\"%Y\") }}", "long, short, iso"),
        ("{{ days_late + 1 }}", "`+` is not available"),
        ("{{ true }}", "word of the language"),
        ("{% if 1 %}x{% endif %}", "depend on a variable"),
        ("{% if payment.amount > 3 %}x{% endif %}", "Compare a text"),
        ("{{ is_late }}", "true or false"),
        ("{{ items }}", "for` loop"),
        ("{% for contact in items %}{{ contact.label }}{% endfor %}", "already a variable"),
        ("{% for item in items %}x{% endfor %}", "never uses"),
        ("{% for item in days_late %}{{ item.label }}{% endfor %}", "not a list"),
    ] {
        refused(TemplatePart::Text, text, expected);
    }
}

#[test]
fn broken_syntax_is_refused_with_a_sentence() {
    for (text, expected) in [
        ("{{ contact.first_name", "not closed"),
        ("{{ contact.first_name }", "not closed"),
        ("{% if is_late %}x", "not closed"),
        ("{% endif %}", "closes nothing"),
        ("{% for item in items %}{{ item.label }}{% endif %}", "write `endfor` first"),
        ("{% else %}", "belongs once"),
        ("{{ }}", "missing"),
        ("{# never closed", "not closed"),
        ("{{ \"open }}", "not closed"),
        ("{{ contact.é }}", "not available"),
    ] {
        refused(TemplatePart::Text, text, expected);
    }
}

#[test]
fn links_lead_only_where_they_are_meant_to() {
    for html in [
        "<a href=\"javascript:alert(1)\">x</a>",
        "<a href=\"JavaScript:alert(1)\">x</a>",
        "<a href=\"&#106;avascript:alert(1)\">x</a>",
        "<a href=\" javascript:alert(1)\">x</a>",
        "<a href=\"http://example.com\">x</a>",
        "<a href=\"//example.com\">x</a>",
        "<a href=\"/relative\">x</a>",
        "<a href='{{ contact.first_name }}'>x</a>",
        "<a href=\"https://{{ contact.first_name }}/\">x</a>",
        "<a href=\"https://example.com{{ contact.first_name | urlencode }}\">x</a>",
        "<a href=\"https://example.com/{{ contact.first_name }}\">x</a>",
        "<a href={{ account_url }}>x</a>",
        "<a HREF=javascript:alert(1)>x</a>",
        "<img src=\"data:image/png;base64,x\">",
        "<p onclick=\"x()\">x</p>",
        "<p {{ contact.first_name }}>x</p>",
        "<{{ contact.first_name }}>x",
        "<p style=\"color: {{ contact.first_name }}\">x</p>",
        "<style>{{ contact.first_name }}</style>",
        "<script>x</script>",
        "<iframe src=\"https://example.com/\"></iframe>",
        "<a {% if is_late %}href=\"https://example.com/\"{% endif %}>x</a>",
        "<a href=\"https://example.com/",
    ] {
        assert!(!problems("Hello", Some(html), Some("Hello")).is_empty(), "accepted: {html}");
    }
    accepted("<a href=\"{{ account_url }}\">x</a> <a href=\"{{ account_url }}&amp;from=mail\">y</a>");
    accepted("<a href=\"https://example.com/?q={{ contact.first_name | urlencode }}&amp;d={{ days_late }}\">x</a>");
    accepted("<a href='MAILTO:help@example.com'>x</a><a href=\"#top\">y</a>");
    accepted("<img src=\"https://e.com/x.png\" alt=\"{{ contact.first_name }}\">");
    accepted("<style>p { color: red }</style><p>1 < 2 {% if is_late %}<b>{{ days_late }}</b>{% endif %}</p>");
    accepted("<!-- {{ days_late }} --><p>x</p>");
}

#[test]
fn a_template_needs_a_body_and_a_subject_of_one_line() {
    assert!(problems("Hello", None, None)[0].message.contains("neither"));
    assert!(problems("Hello", Some(" "), Some("\n"))[0].message.contains("neither"));
    refused(TemplatePart::Subject, "Hi\r\nBcc: x@example.com", "one line");
    refused(TemplatePart::Subject, " ", "empty");
    assert!(!problems("Hello", Some("<p></p>"), None).is_empty(), "a derived text part must not be empty");
}

#[test]
fn declarations_are_checked_as_well() {
    let declared = |variables: Value| {
        let variables = serde_json::from_value(variables).unwrap();
        let source = TemplateSource { subject: "Hi".into(), html: None, text: Some("Hi".into()), variables };
        CheckedTemplate::check(source).err().unwrap_or_default()
    };
    for variables in [
        json!([{"name": "name", "kind": "text"}, {"name": "name", "kind": "text"}]),
        json!([{"name": "contact", "kind": "text"}, {"name": "contact.name", "kind": "text"}]),
        json!([{"name": "contact.", "kind": "text"}]),
        json!([{"name": "first name", "kind": "text"}]),
        json!([{"name": "x1", "kind": "text"}]),
        json!([{"name": "loop", "kind": "text"}]),
        json!([{"name": "total", "kind": "money", "default": "12.00"}]),
        json!([{"name": "link", "kind": "url", "example": "javascript:alert(1)"}]),
        json!([{"name": "rows", "kind": {"list": {"fields": {}}}}]),
        json!([{"name": "rows", "kind": {"list": {"fields": {"rows": {"list": {"fields": {"a": "text"}}}}}}}]),
    ] {
        let found = declared(variables.clone());
        assert!(found.iter().all(|problem| problem.part == TemplatePart::Variables), "{found:?}");
        assert!(!found.is_empty(), "accepted: {variables}");
    }
}

#[test]
fn null_without_a_default_is_refused_and_null_with_one_is_the_default() {
    let template = text_template("Dear {{ contact.first_name }} {{ contact.last_name }}");
    let mut variables = provided();
    variables["contact"] = json!({"first_name": null, "last_name": null});
    let problems = template.resolve(&variables).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].path, "contact.first_name");
    variables["contact"]["first_name"] = json!("Ana");
    let resolved = template.resolve(&variables).unwrap();
    assert_eq!(template.render(&resolved).unwrap().text, "Dear Ana customer");
}

#[test]
fn wrong_variables_are_named_by_path_and_never_by_value() {
    let template = text_template("Hello");
    let secret = "secret-value";
    for (path, value) in [
        ("days_late", json!(secret)),
        ("days_late", json!(1.5)),
        ("is_late", json!("true")),
        ("account_url", json!(format!("javascript:{secret}"))),
        ("account_url", json!(format!("https://example.com/ {secret}"))),
        ("contact", json!(secret)),
        ("payment", json!(null)),
        ("payment.amount", json!({"amountMinor": secret, "currency": "USD"})),
        ("payment.amount", json!(12)),
        ("payment.date", json!("05/11/2026")),
        ("contact.first_name", json!({"x": secret})),
        ("contact.first_name", json!(format!("{secret}\u{0}"))),
        ("contact.frist_name", json!(secret)),
        ("items[0].label", json!([{"label": 1, "amount": {"amountMinor": "1", "currency": "USD"}}])),
        ("items[0].amount", json!([{"label": secret}])),
        ("items[0].extra", json!([{"label": "x", "amount": {"amountMinor": "1", "currency": "USD"}, "extra": 1}])),
        ("unknown", json!(secret)),
    ] {
        let mut variables = provided();
        let name = path.split('[').next().unwrap();
        match name.split_once('.') {
            Some((group, field)) => variables[group][field] = value.clone(),
            None => drop(variables.insert(name.to_owned(), value.clone())),
        }
        let problems = template.resolve(&variables).expect_err(path);
        assert!(problems.iter().any(|problem| problem.path == path), "{path}: {problems:?}");
        assert!(!format!("{problems:?}").contains(secret), "{problems:?}");
    }
    let problems = template.resolve(&Map::new()).unwrap_err();
    let missing: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(missing, ["account_url", "contact.first_name", "payment.amount", "payment.date"]);
}

#[test]
fn resolving_resolved_variables_changes_nothing() {
    let template = text_template("Hello");
    let resolved = template.resolve(&provided()).unwrap();
    let again = template.resolve(resolved.as_json()).unwrap();
    assert_eq!(serde_json::to_string(&resolved).unwrap(), serde_json::to_string(&again).unwrap());
}

#[test]
fn html_is_escaped_and_text_and_subject_are_not() {
    let html = "<p title=\"{{ contact.first_name }}\">{{ contact.first_name }} {{ payment.amount }}</p>";
    let source = source("Hi {{ contact.first_name }}", Some(html), Some("{{ contact.first_name }}"));
    let template = CheckedTemplate::check(source).unwrap();
    let mut variables = provided();
    variables["contact"]["first_name"] = json!("<b>\"A\" & 'B'");
    let mail = template.render(&template.resolve(&variables).unwrap()).unwrap();
    let html = mail.html.unwrap();
    assert!(!html.contains("<b>") && !html.contains("\"A\"") && html.contains("&lt;b&gt;"), "{html}");
    assert!(html.contains("$1,234.56"), "{html}");
    assert_eq!((mail.subject.as_str(), mail.text.as_str()), ("Hi <b>\"A\" & 'B'", "<b>\"A\" & 'B'"));
}

#[test]
fn loops_conditions_and_filters_render_without_empty_lines() {
    let text = "\
{% if days_late > 3 and is_late %}
Late: {{ days_late }}
{% else %}
In time.
{% endif %}
{% for item in items %}
{{ loop.index }}/{{ items | length }} {{ item.label | upper }}: {{ item.amount | money(\"code\") }}{% if loop.last %}.{% endif %}

{% endfor %}
{{ payment.date }}, {{ payment.date | date('iso') }}
";
    let template = text_template(text);
    let mut variables = provided();
    variables.insert("days_late".into(), json!(4));
    variables.insert("is_late".into(), json!(true));
    let amount = json!({"amountMinor": "500", "currency": "EUR"});
    variables.insert("items".into(), json!([{"label": "a", "amount": amount}, {"label": "b", "amount": amount}]));
    let mail = template.render(&template.resolve(&variables).unwrap()).unwrap();
    assert_eq!(mail.text, "Late: 4\n1/2 A: 5.00 EUR\n2/2 B: 5.00 EUR.\nNovember 5, 2026, 2026-11-05\n");
}

#[test]
fn a_missing_text_part_is_derived_and_marked() {
    let html =
        "<h1>Hello</h1><p>Dear {{ contact.first_name }}, <a href=\"{{ account_url }}\">see your account</a>.</p>";
    let template = CheckedTemplate::check(source("Hi", Some(html), None)).unwrap();
    assert!(template.text_is_derived());
    let mail = template.render(&template.resolve(&provided()).unwrap()).unwrap();
    assert!(mail.text_is_derived);
    assert!(mail.text.contains("Dear Ana") && mail.text.contains("https://example.com/a?b=1&c=2"), "{}", mail.text);
    assert!(!mail.text.contains('<') && !mail.text.contains('\r'), "{}", mail.text);
}

#[test]
fn the_subject_stays_one_line_of_at_most_255_characters() {
    let template = CheckedTemplate::check(source("Hi {{ contact.first_name }}", None, Some("Hello"))).unwrap();
    let mut variables = provided();
    for (name, expected) in [("A\nBcc: x@example.com".to_owned(), "one line"), ("x".repeat(253), "255 characters")] {
        variables["contact"]["first_name"] = json!(name);
        let problems = template.resolve(&variables).unwrap_err();
        assert_eq!(problems[0].path, "contact.first_name");
        assert!(problems[0].message.contains(expected), "{problems:?}");
    }
    variables["contact"]["first_name"] = json!("x".repeat(252));
    let mail = template.render(&template.resolve(&variables).unwrap()).unwrap();
    assert_eq!(mail.subject.chars().count(), 255);
}

#[test]
fn html_that_gmail_would_clip_is_a_warning() {
    let html = format!("<p>{}</p>", "x".repeat(103 * 1024));
    let template = CheckedTemplate::check(source("Hi", Some(&html), Some("Hello"))).unwrap();
    assert!(template.warnings().iter().any(|warning| warning.message.contains("Gmail clips")));
}

#[test]
fn output_larger_than_a_mail_may_be_is_an_error_and_not_memory() {
    let html = "<p>{{ contact.first_name }}</p>".repeat(1_000);
    let template = CheckedTemplate::check(source("Hi", Some(&html), Some("Hello"))).unwrap();
    let mut variables = provided();
    variables["contact"]["first_name"] = json!("x".repeat(10_000));
    let error = template.render(&template.resolve(&variables).unwrap()).unwrap_err();
    assert!(error.to_string().contains("larger than"), "{error}");
}
