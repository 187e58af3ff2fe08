//! Collecting and compiling schemas, so that every mistake is found at startup rather than at the first message.

use std::{collections::BTreeMap, error::Error, sync::Arc};

use jsonschema::{Retrieve, Uri};
use serde_json::Value;

use super::{Contract, SchemaRegistry};

/// The reason why a set of schemas cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The text does not parse.
    #[error("a schema is not JSON: {reason}")]
    NotJson {
        /// The parser's error.
        reason: String,
    },
    /// A schema has no `$id`.
    #[error("a schema has no $id: give it one, such as payment.posted.v1")]
    MissingId,
    /// Two different schemas have the same `$id`.
    #[error("two different schemas have the $id {schema_id:?}: give the changed one a new version")]
    Conflict {
        /// The `$id` they share.
        schema_id: String,
    },
    /// A schema cannot be compiled.
    #[error("the schema {schema_id:?} cannot be used: {reason}")]
    Invalid {
        /// Its `$id`.
        schema_id: String,
        /// A description of the problem.
        reason: String,
    },
}

/// Collects schemas; see [`SchemaRegistry::builder`].
#[derive(Debug, Clone, Default)]
pub struct SchemaRegistryBuilder {
    schemas: BTreeMap<String, Value>,
}

impl SchemaRegistryBuilder {
    /// Adds a schema from its JSON text.
    pub fn add_json(self, text: &str) -> Result<Self, RegistryError> {
        let schema =
            serde_json::from_str(text).map_err(|error| RegistryError::NotJson { reason: error.to_string() })?;
        self.add(schema)
    }

    /// Adds a schema. The same schema may be added again: two services may share a contract.
    #[expect(clippy::should_implement_trait, reason = "a builder's verb, not a sum")]
    pub fn add(mut self, schema: Value) -> Result<Self, RegistryError> {
        let id = schema.get("$id").and_then(Value::as_str).filter(|id| !id.is_empty());
        let id = id.ok_or(RegistryError::MissingId)?.to_owned();
        match self.schemas.get(&id) {
            Some(known) if *known != schema => Err(RegistryError::Conflict { schema_id: id }),
            Some(_) => Ok(self),
            None => {
                self.schemas.insert(id, schema);
                Ok(self)
            }
        }
    }

    /// Compiles every schema. A `$ref` may name another schema of this registry; nothing is fetched. Fails if a schema
    /// is invalid.
    pub fn build(self) -> Result<SchemaRegistry, RegistryError> {
        let known = Arc::new(self.schemas);
        let compile = |(id, schema): (&String, &Value)| {
            let validator = jsonschema::options()
                .should_validate_formats(true)
                // A misspelt format would otherwise check nothing.
                .should_ignore_unknown_formats(false)
                .with_retriever(Siblings(Arc::clone(&known)))
                .build(schema)
                .map_err(|error| RegistryError::Invalid { schema_id: id.clone(), reason: error.to_string() })?;
            Ok((id.clone(), Contract { schema: schema.clone(), validator }))
        };
        let schemas: BTreeMap<_, _> = known.iter().map(compile).collect::<Result<_, _>>()?;
        Ok(SchemaRegistry { schemas: Arc::new(schemas) })
    }
}

/// Resolves a `$ref` among the added schemas, and nowhere else.
struct Siblings(Arc<BTreeMap<String, Value>>);

/// The prefix that the library adds to an `$id` that is not a full URI.
const DEFAULT_BASE: &str = "json-schema:///";

impl Retrieve for Siblings {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn Error + Send + Sync>> {
        let uri = uri.as_str();
        let id = uri.strip_prefix(DEFAULT_BASE).unwrap_or(uri);
        let found = self.0.get(id).cloned();
        found.ok_or_else(|| format!("$ref names {id:?}, which is not among the registered schemas").into())
    }
}
