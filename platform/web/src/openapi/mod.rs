//! `/openapi.json`: OpenAPI 3.1, generated from the declared routes and the registered schemas, so that it cannot
//! drift.

mod components;

use crate::{
    Access, Idempotency, Routes,
    problem::{ProblemCode, codes},
    routes::{ResponseBody, RouteSpec},
};
use axum::http::StatusCode;
use components::{ComponentNames, unique};
use onceward_envelope::SchemaRegistry;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Returns the description of all services.
pub fn describe(services: &[(&'static str, Routes)], schemas: &SchemaRegistry) -> Value {
    let names = ComponentNames::new(schemas);
    let mut operation_ids = BTreeSet::new();
    let mut paths = Map::new();
    for (service, routes) in services {
        for spec in routes.specs() {
            let item = paths.entry(path_template(&spec.path)).or_insert_with(|| json!({}));
            let id = unique(&mut operation_ids, operation_id(service, spec));
            item[spec.method.as_str().to_ascii_lowercase()] = operation(service, spec, &id, &names);
        }
    }
    let tags: Vec<Value> = services.iter().map(|(name, _)| json!({"name": name})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Onceward", "version": env!("CARGO_PKG_VERSION")},
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
            },
            "schemas": names.schemas(schemas),
        },
    })
}

fn operation(service: &str, spec: &RouteSpec, id: &str, names: &ComponentNames) -> Value {
    let mut operation = json!({
        "operationId": id,
        "tags": [service],
        "parameters": parameters(spec),
        "responses": responses(spec, names),
    });
    if let Some(summary) = &spec.summary {
        operation["summary"] = json!(summary);
    }
    if let Some(schema_id) = &spec.request {
        operation["requestBody"] = json!({
            "required": true,
            "content": {"application/json": {"schema": names.reference(schema_id)}},
        });
    }
    match &spec.access {
        Access::Public => operation["security"] = json!([]),
        Access::Authenticated => operation["security"] = json!([{"bearer": []}]),
        // Since OpenAPI 3.1 the list names the roles that any scheme requires.
        Access::Role(role) => operation["security"] = json!([{"bearer": [role]}]),
    }
    operation
}

fn parameters(spec: &RouteSpec) -> Vec<Value> {
    let in_path = path_parameters(&spec.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let mut all: Vec<Value> = in_path.collect();
    if spec.idempotency != Idempotency::Off {
        all.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": spec.idempotency == Idempotency::Required,
            "description": "Identifies the command. Send the same key when you repeat it: the repetition returns the first response.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        }));
    }
    all
}

fn responses(spec: &RouteSpec, names: &ComponentNames) -> Value {
    let mut all = Map::new();
    for declared in &spec.responses {
        let status = StatusCode::from_u16(declared.status).ok();
        let reason = status.and_then(|status| status.canonical_reason()).unwrap_or("Success");
        let response = all.entry(declared.status.to_string()).or_insert_with(|| json!({"description": reason}));
        match &declared.body {
            ResponseBody::Empty => {}
            ResponseBody::Json(schema_id) => {
                response["content"]["application/json"] = json!({"schema": names.reference(schema_id)});
            }
            ResponseBody::Media(media_type) => response["content"][media_type] = json!({}),
        }
    }
    for code in expected_problems(spec) {
        let response = all.entry(code.status.to_string()).or_insert_with(|| json!({"description": ""}));
        response["content"]["application/problem+json"] = json!({"schema": names.problem()});
        if let Some(Value::String(description)) = response.get_mut("description") {
            if !description.is_empty() {
                description.push_str("; ");
            }
            description.push_str(code.code);
        }
    }
    Value::Object(all)
}

/// Returns the problems that the platform may return before or instead of the handler.
fn expected_problems(spec: &RouteSpec) -> Vec<ProblemCode> {
    let mut expected = vec![codes::INVALID_REQUEST];
    if spec.access != Access::Public {
        expected.push(codes::UNAUTHORIZED);
    }
    if matches!(spec.access, Access::Role(_)) {
        expected.push(codes::FORBIDDEN);
    }
    if spec.request.is_some() {
        expected.extend([
            codes::INVALID_JSON,
            codes::BODY_TOO_LARGE,
            codes::UNSUPPORTED_MEDIA_TYPE,
            codes::VALIDATION_FAILED,
        ]);
    }
    if spec.idempotency == Idempotency::Required {
        expected.push(codes::KEY_MISSING);
    }
    if spec.idempotency != Idempotency::Off {
        expected.extend([codes::KEY_INVALID, codes::KEY_IN_PROGRESS, codes::KEY_REUSED]);
    }
    expected.extend([codes::INTERNAL, codes::DATABASE_UNAVAILABLE, codes::OVERLOADED, codes::TIMEOUT]);
    expected
}

/// Converts a path to OpenAPI's form, which has no catch-all segment: `{*rest}` becomes `{rest}`.
fn path_template(path: &str) -> String {
    path.replace("{*", "{")
}

fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        Some(name.trim_start_matches('*'))
    })
}

/// Returns an operation id such as `orders_post_api_orders_by_id`.
fn operation_id(service: &str, spec: &RouteSpec) -> String {
    let mut id = format!("{service}_{}", spec.method.as_str().to_ascii_lowercase());
    for segment in spec.path.split('/').filter(|segment| !segment.is_empty()) {
        id.push('_');
        if segment.starts_with('{') {
            id.push_str("by_");
        }
        let plain = segment.trim_matches(['{', '}', '*']);
        id.extend(plain.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;

    async fn handler() -> Problem {
        Problem::new(codes::NOT_FOUND)
    }

    fn example() -> Value {
        let schemas = SchemaRegistry::builder()
            .add(json!({"$id": "money.v1", "type": "string", "pattern": "^[0-9]+$"}))
            .unwrap()
            .add(json!({
                "$id": "order.place.v1",
                "type": "object",
                "properties": {
                    "total": {"$ref": "money.v1"},
                    "line": {"$ref": "#/$defs/line"},
                    "default": {"$ref": "#/$defs/line"},
                },
                "$defs": {"line": {"type": "object", "properties": {"price": {"$ref": "money.v1"}}}},
            }))
            .unwrap()
            .build()
            .unwrap();
        let routes = Routes::new()
            .post("/api/orders", Access::role("orders:write"), handler)
            .summary("Place an order")
            .request("order.place.v1")
            .responds(202, "order.place.v1")
            .get("/api/orders/{id}", Access::public(), handler)
            .responds(200, "order.place.v1")
            .get("/api/orders/by_id", Access::authenticated(), handler)
            .get("/api/files/{*path}", Access::authenticated(), handler)
            .responds_media(200, "text/csv")
            .responds_media(200, "application/jsonl")
            .delete("/api/files/{*path}", Access::authenticated(), handler)
            .responds_empty(204);
        describe(&[("orders", routes)], &schemas)
    }

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_resolves() {
        let description = example();
        let mut found = Vec::new();
        references(&description, &mut found);
        assert!(found.len() > 8, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leaves the document"));
            assert!(description.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
    }

    #[test]
    fn operation_ids_are_unique_and_every_operation_has_responses() {
        let description = example();
        let mut ids = BTreeSet::new();
        for item in description["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()));
                assert!(!operation["responses"].as_object().unwrap().is_empty());
            }
        }
        assert_eq!(ids.len(), 5);
    }

    #[test]
    fn a_response_has_the_content_that_was_declared_and_an_empty_one_has_none() {
        let description = example();
        let file = &description["paths"]["/api/files/{path}"];
        let content = file["get"]["responses"]["200"]["content"].as_object().unwrap();
        assert!(content.len() == 2 && content.contains_key("text/csv") && content.contains_key("application/jsonl"));
        assert_eq!(file["delete"]["responses"]["204"], json!({"description": "No Content"}));
    }

    #[test]
    fn a_command_shows_its_key_its_role_and_its_body() {
        let description = example();
        let operation = &description["paths"]["/api/orders"]["post"];
        assert_eq!(operation["parameters"][0]["name"], "Idempotency-Key");
        assert_eq!(operation["security"], json!([{"bearer": ["orders:write"]}]));
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(schema["$ref"], "#/components/schemas/order.place.v1");
        assert_eq!(description["paths"]["/api/files/{path}"]["get"]["parameters"][0]["name"], "path");
        assert!(description["components"]["schemas"]["money.v1"].get("$id").is_none());
    }
}
