//! Registered schemas as OpenAPI components: as they are, but with references that stay inside the document.

use onceward_envelope::SchemaRegistry;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PROBLEM: &str = "Problem";
/// Keywords whose value maps names of the author's choice to schemas.
const MAPS_OF_SCHEMAS: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is data, whatever it looks like.
const DATA: &[&str] = &["const", "enum", "default", "examples", "example", "required"];

/// Takes `name`, or the first of `name_2`, `name_3` … that is free.
pub(super) fn unique(taken: &mut BTreeSet<String>, name: String) -> String {
    let mut candidate = name.clone();
    let mut next = 2;
    while !taken.insert(candidate.clone()) {
        candidate = format!("{name}_{next}");
        next += 1;
    }
    candidate
}

/// The component that each schema's `$id` became.
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
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

    /// A reference to the schema of this `$id`.
    pub(super) fn reference(&self, schema_id: &str) -> Value {
        let name = self.0.get(schema_id).map_or(schema_id, String::as_str);
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    /// A reference to the problem document's schema.
    pub(super) fn problem(&self) -> Value {
        json!({"$ref": format!("#/components/schemas/{PROBLEM}")})
    }

    /// Every registered schema, and the problem document's.
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

    /// A schema inside the component `home`, with its references turned.
    fn rewritten(&self, schema: &Value, home: &str) -> Value {
        match schema {
            Value::Object(map) => {
                map.iter().map(|(keyword, value)| (keyword.clone(), self.keyword(keyword, value, home))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.rewritten(item, home)).collect(),
            other => other.clone(),
        }
    }

    fn keyword(&self, keyword: &str, value: &Value, home: &str) -> Value {
        match value {
            Value::String(reference) if keyword == "$ref" => self.turned(reference, home).into(),
            Value::Object(named) if MAPS_OF_SCHEMAS.contains(&keyword) => {
                named.iter().map(|(name, schema)| (name.clone(), self.rewritten(schema, home))).collect()
            }
            value if DATA.contains(&keyword) => value.clone(),
            value => self.rewritten(value, home),
        }
    }

    /// `#/$defs/x` and `other.v1#/$defs/x`, as pointers from the document's root.
    fn turned(&self, reference: &str, home: &str) -> String {
        let (id, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        let name = match id {
            "" => Some(home),
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
        "description": "RFC 9457. `type` is the address of a page that says what to do.",
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
