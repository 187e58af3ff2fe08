//! `/docs`: the API as a page, generated from its OpenAPI description.

use super::{page, schema};
use maud::{Markup, html};
use serde_json::Value;

/// The order in which the methods of a path are shown.
const METHODS: &[&str] = &["get", "post", "put", "patch", "delete"];

struct Operation<'d> {
    method: &'static str,
    path: &'d str,
    spec: &'d Value,
}

/// Renders the page of an API description.
pub(crate) fn docs(description: &Value) -> String {
    let tags: Vec<&str> =
        description["tags"].as_array().into_iter().flatten().filter_map(|tag| tag["name"].as_str()).collect();
    let services: Vec<(&str, Vec<Operation<'_>>)> =
        tags.into_iter().map(|tag| (tag, operations(description, tag))).collect();
    let schemas = description["components"]["schemas"].as_object();
    let body = html! {
        main.docs {
            nav.contents aria-label="Contents" {
                ul {
                    @for (tag, operations) in &services {
                        li { a href={ "#" (tag) } { (tag) } " " span.count { (operations.len()) } }
                    }
                    li { a href="#schemas" { "Schemas" } " " span.count { (schemas.map_or(0, serde_json::Map::len)) } }
                }
            }
            div.content {
                h1 { "API reference" }
                p.lead { "Generated from " a href="/openapi.json" { code { "/openapi.json" } }
                    ". Open a route to see its request body and its responses. Errors are " a href="/problems" { "problem documents" } "." }
                @for (tag, operations) in &services {
                    section id=(tag) {
                        h2 { (tag) }
                        @for operation in operations { (show_operation(operation)) }
                    }
                }
                section id="schemas" {
                    h2 { "Schemas" }
                    @for (name, schema) in schemas.into_iter().flatten() { (show_schema(name, schema)) }
                }
            }
        }
    };
    page("API reference – Onceward", &body)
}

fn operations<'d>(description: &'d Value, tag: &str) -> Vec<Operation<'d>> {
    let mut found = Vec::new();
    for (path, item) in description["paths"].as_object().into_iter().flatten() {
        for method in METHODS {
            let Some(spec) = item.get(*method) else { continue };
            if spec["tags"][0] == tag {
                found.push(Operation { method, path, spec });
            }
        }
    }
    found
}

fn show_operation(operation: &Operation<'_>) -> Markup {
    let Operation { method, path, spec } = operation;
    let id = spec["operationId"].as_str().unwrap_or_default();
    html! {
        details.operation id=(id) {
            summary {
                span class={ "method " (method) } { (method.to_uppercase()) }
                code.path { (path) }
                span.summary { (spec["summary"].as_str().unwrap_or_default()) }
            }
            div.body {
                p { (show_access(&spec["security"])) }
                (show_parameters(&spec["parameters"]))
                @if let Some(body) = spec["requestBody"]["content"]["application/json"].get("schema") {
                    p { strong { "Request body: " } (schema::kind(body)) }
                }
                div.scroll { table {
                    thead { tr { th.number { "Status" } th { "Response" } } }
                    tbody {
                        @for (status, response) in spec["responses"].as_object().into_iter().flatten() {
                            tr { td.number { (status) } td { (show_response(response)) } }
                        }
                    }
                } }
            }
        }
    }
}

fn show_access(security: &Value) -> Markup {
    let roles: Vec<&str> = security[0]["bearer"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    html! {
        @if security.as_array().is_some_and(Vec::is_empty) {
            "No token is needed."
        } @else if roles.is_empty() {
            "Any valid token."
        } @else {
            "Role " code { (roles.join(", ")) }
        }
    }
}

fn show_parameters(parameters: &Value) -> Markup {
    let all = parameters.as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        @if !all.is_empty() {
            div.scroll { table {
                thead { tr { th { "Parameter" } th { "In" } th { "Meaning" } } }
                tbody {
                    @for parameter in all {
                        tr {
                            td {
                                code { (parameter["name"].as_str().unwrap_or_default()) }
                                @if parameter["required"] == true { span.required { "required" } }
                            }
                            td { (parameter["in"].as_str().unwrap_or_default()) }
                            td { (parameter["description"].as_str().unwrap_or_default()) }
                        }
                    }
                }
            } }
        }
    }
}

/// Renders a response. Problem codes become links; other descriptions stay text.
fn show_response(response: &Value) -> Markup {
    let description = response["description"].as_str().unwrap_or_default();
    let content = response["content"].as_object();
    let schema = response["content"]["application/json"].get("schema");
    let has_own_media = |media: &&String| !["application/json", "application/problem+json"].contains(&media.as_str());
    html! {
        @for (nth, part) in description.split("; ").enumerate() {
            @if nth > 0 { ", " }
            @if part.contains(' ') || part.chars().any(char::is_uppercase) {
                (part)
            } @else {
                a href={ "/problems/" (part) } { code { (part) } }
            }
        }
        @if let Some(schema) = schema { ": " (schema::kind(schema)) }
        @for media in content.into_iter().flat_map(|content| content.keys()).filter(has_own_media) { ": " code { (media) } }
    }
}

fn show_schema(name: &str, schema: &Value) -> Markup {
    html! {
        details.schema id={ "schema-" (name) } {
            summary {
                code.path { (name) }
                span.summary { (schema["description"].as_str().or_else(|| schema["title"].as_str()).unwrap_or_default()) }
            }
            div.body {
                (schema::members(schema))
                details { summary { "JSON Schema" }
                    pre { code { (serde_json::to_string_pretty(schema).unwrap_or_default()) } } }
            }
        }
    }
}
