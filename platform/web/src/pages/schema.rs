//! A JSON Schema as a table of its members.

use maud::{Markup, html};
use serde_json::Value;

/// How many levels of nested members the table shows; the JSON below it has all of them.
const MAX_DEPTH: usize = 4;

/// Renders the members of `schema`, one per row, with those of nested objects below them.
pub(super) fn members(schema: &Value) -> Markup {
    let mut rows = Vec::new();
    collect(schema, "", 0, &mut rows);
    html! {
        @if rows.is_empty() {
            p { (kind(schema)) }
        } @else {
            div.scroll { table {
                thead { tr { th { "Member" } th { "Type" } th { "Meaning" } } }
                tbody {
                    @for row in &rows {
                        tr {
                            td { code { (row.name) } @if row.required { span.required { "required" } } }
                            td { (row.kind) }
                            td { (row.text) }
                        }
                    }
                }
            } }
        }
    }
}

struct Row {
    name: String,
    required: bool,
    kind: Markup,
    text: String,
}

fn collect(schema: &Value, prefix: &str, depth: usize, rows: &mut Vec<Row>) {
    let Some(properties) = schema["properties"].as_object().filter(|_| depth < MAX_DEPTH) else {
        return;
    };
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, member) in properties {
        let path = format!("{prefix}{name}");
        rows.push(Row {
            required: required.contains(&name.as_str()),
            kind: kind(member),
            text: description(member),
            name: path.clone(),
        });
        collect(member, &format!("{path}."), depth + 1, rows);
        collect(&member["items"], &format!("{path}[]."), depth + 1, rows);
    }
}

/// Renders a value's type, with a link if it is a schema of its own.
pub(super) fn kind(schema: &Value) -> Markup {
    if let Some(name) = schema["$ref"].as_str().and_then(|at| at.strip_prefix("#/components/schemas/")) {
        let name = name.split('/').next().unwrap_or(name);
        return html! { a href={ "#schema-" (name) } { (name) } };
    }
    let choices = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    if let Some(choices) = choices {
        return html! { @for (nth, choice) in choices.iter().enumerate() { @if nth > 0 { " or " } (kind(choice)) } };
    }
    let word = match &schema["type"] {
        Value::String(word) => word.clone(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ if schema.get("const").is_some() => "constant".to_owned(),
        _ if schema.get("enum").is_some() => "one of".to_owned(),
        _ => "any".to_owned(),
    };
    let format = schema["format"].as_str().map(|format| format!(" ({format})")).unwrap_or_default();
    html! {
        (word) (format)
        @if schema["items"].is_object() { " of " (kind(&schema["items"])) }
    }
}

/// Returns its description and its constraints beyond the type.
fn description(schema: &Value) -> String {
    let mut parts: Vec<String> = schema["description"].as_str().map(str::to_owned).into_iter().collect();
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        parts.push(format!("One of {}.", values.join(", ")));
    }
    if let Some(value) = schema.get("const") {
        parts.push(format!("Always {value}."));
    }
    let bounds = [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "length at least"),
        ("maxLength", "length at most"),
        ("minItems", "items at least"),
        ("maxItems", "items at most"),
        ("pattern", "must match"),
    ];
    let constraints: Vec<String> = bounds
        .iter()
        .filter_map(|(keyword, phrase)| {
            let value = schema.get(*keyword)?;
            Some(format!("{phrase} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        })
        .collect();
    if !constraints.is_empty() {
        parts.push(format!("({})", constraints.join(", ")));
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_members_are_rows_and_references_are_links() {
        let schema = json!({"type": "object", "required": ["line"], "properties": {
            "line": {"type": "object", "properties": {"sku": {"type": "string", "maxLength": 9}}},
            "totals": {"type": "array", "items": {"$ref": "#/components/schemas/money.v1"}},
        }});
        let html = members(&schema).into_string();
        assert!(html.contains("<code>line.sku</code>") && html.contains("(length at most 9)"), "{html}");
        assert!(html.contains("array of <a href=\"#schema-money.v1\">money.v1</a>"), "{html}");
        assert_eq!(html.matches("required\">required").count(), 1, "{html}");
    }
}
