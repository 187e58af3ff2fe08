//! Registered schemas as OpenAPI components: unchanged, except that references stay inside the document.

use onceward_envelope::SchemaRegistry;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PROBLEM: &str = "Problem";
/// Keywords whose value maps arbitrary names to schemas.
const MAPS_OF_SCHEMAS: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is data, whatever its form.
const DATA: &[&str] = &["const", "enum", "default", "examples", "example", "required"];

/// Reserves `name`, or the first of `name_2`, `name_3` … that is free.
pub(super) fn unique(taken: &mut BTreeSet<String>, name: String) -> String {
    let mut candidate = name.clone();
    let mut next = 2;
    while !taken.insert(candidate.clone()) {
        candidate = format!("{name}_{next}");
        next += 1;
    }
    candidate
}

/// Maps each schema's `$id` to the name of its component.
pub(super) struct ComponentNames(BTreeMap<String, String>);

impl ComponentNames {
    pub(super) fn new(schemas: &SchemaRegistry) -> Self {
        let mut taken = BTreeSet::from([PROBLEM.to_owned()]);
        let names = schemas.ids().into_iter().map(|id| {
            let plain = |c: char| {
                if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }
            };
            (id.to_owned(), unique(&mut taken, id.chars().map(plain).collect()))
        });
        Self(names.collect())
    }

    /// Returns a reference to the schema with this `$id`.
    pub(super) fn reference(&self, schema_id: &str) -> Value {
        let name = self.0.get(schema_id).map_or(schema_id, String::as_str);
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    /// Returns a reference to the problem document's schema.
    pub(super) fn problem(&self) -> Value {
        json!({"$ref": format!("#/components/schemas/{PROBLEM}")})
    }

    /// Returns every registered schema, and the problem document's.
    pub(super) fn schemas(&self, schemas: &SchemaRegistry) -> Value {
        let mut all = Map::new();
        for (id, name) in &self.0 {
            if let Some(schema) = schemas.get(id) {
                let mut schema = self.rewritten(schema, name);
                if let Value::Object(schema) = &mut schema {
                    schema.remove("$id");
                    schema.remove("$schema");
                }
                all.insert(name.clone(), schema);
            }
        }
        all.insert(PROBLEM.to_owned(), problem_schema());
        Value::Object(all)
    }

    /// Returns a schema inside `component`, with its references rewritten.
    fn rewritten(&self, schema: &Value, component: &str) -> Value {
        match schema {
            Value::Object(map) => {
                map.iter().map(|(keyword, value)| (keyword.clone(), self.keyword(keyword, value, component))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.rewritten(item, component)).collect(),
            other => other.clone(),
        }
    }

    fn keyword(&self, keyword: &str, value: &Value, component: &str) -> Value {
        match value {
            Value::String(reference) if keyword == "$ref" => self.rewritten_reference(reference, component).into(),
            Value::Object(named) if MAPS_OF_SCHEMAS.contains(&keyword) => {
                named.iter().map(|(name, schema)| (name.clone(), self.rewritten(schema, component))).collect()
            }
            value if DATA.contains(&keyword) => value.clone(),
            value => self.rewritten(value, component),
        }
    }

    /// Rewrites `#/$defs/x` and `other.v1#/$defs/x` as pointers from the document's root.
    fn rewritten_reference(&self, reference: &str, component: &str) -> String {
        let (id, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        let name = match id {
            "" => Some(component),
            id => self.0.get(id).map(String::as_str),
        };
        match name {
            Some(name) => format!("#/components/schemas/{name}{pointer}"),
            None => reference.to_owned(),
        }
    }
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "description": "A problem document (RFC 9457). `type` is the URL of a page that explains the problem and what to do.",
        "required": ["type", "title", "status", "code"],
        "properties": {
            "type": {"type": "string", "format": "uri-reference"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string"},
            "detail": {"type": "string"},
            "instance": {"type": "string"},
            "correlationId": {"type": "string"},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["path", "message"],
                    "properties": {
                        "path": {"type": "string", "description": "A JSON pointer into the request's body."},
                        "message": {"type": "string"},
                    },
                },
            },
        },
    })
}
