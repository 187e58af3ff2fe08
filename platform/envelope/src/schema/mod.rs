//! JSON Schemas by `$id`: the contracts that payloads are checked against.

mod builder;
mod violation;

use std::{collections::BTreeMap, fmt, sync::Arc};

use jsonschema::Validator;
use serde_json::Value;

pub use builder::{RegistryError, SchemaRegistryBuilder};
pub use violation::Violation;

use crate::event_type::split_version;

/// The maximum number of violations reported for a payload.
const VIOLATIONS_MAX: usize = 20;

/// All contracts of a program. Immutable, and cheap to clone.
#[derive(Clone, Default)]
pub struct SchemaRegistry {
    schemas: Arc<BTreeMap<String, Contract>>,
}

struct Contract {
    schema: Value,
    validator: Validator,
}

/// The reason why a value does not satisfy a contract. No variant contains the value or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// No contract with this `$id` is registered.
    #[error("no schema with $id {schema_id:?} is registered: add it to the service's schemas")]
    Unknown {
        /// The requested `$id`.
        schema_id: String,
    },
    /// The value violates the contract.
    #[error("the payload does not obey {schema_id}: {}", violation::join(violations))]
    Violations {
        /// The `$id` of the contract.
        schema_id: String,
        /// The violations with their locations; at most 20.
        violations: Vec<Violation>,
    },
}

impl SchemaRegistry {
    /// Creates a builder for a registry.
    pub fn builder() -> SchemaRegistryBuilder {
        SchemaRegistryBuilder::default()
    }

    /// Checks `value` against the contract `schema_id`. Fails if it violates the contract or the contract is unknown.
    pub fn validate(&self, schema_id: &str, value: &Value) -> Result<(), SchemaError> {
        let Some(contract) = self.schemas.get(schema_id) else {
            return Err(SchemaError::Unknown { schema_id: schema_id.to_owned() });
        };
        // Nearly every message is valid, and the plain check is much cheaper than collecting errors.
        if contract.validator.is_valid(value) {
            return Ok(());
        }
        let errors = contract.validator.iter_errors(value);
        let violations = errors.flat_map(violation::from_error).take(VIOLATIONS_MAX).collect();
        Err(SchemaError::Violations { schema_id: schema_id.to_owned(), violations })
    }

    /// Returns whether a contract with this `$id` is registered.
    pub fn contains(&self, schema_id: &str) -> bool {
        self.schemas.contains_key(schema_id)
    }

    /// Returns every `$id`, sorted.
    pub fn ids(&self) -> Vec<&str> {
        self.schemas.keys().map(String::as_str).collect()
    }

    /// Returns the schema as it was registered.
    pub fn get(&self, schema_id: &str) -> Option<&Value> {
        self.schemas.get(schema_id).map(|contract| &contract.schema)
    }

    /// Returns the registered versions of an event in ascending order: `versions_of("payment.posted")`.
    pub fn versions_of(&self, name: &str) -> Vec<u16> {
        let ids = self.schemas.keys();
        let mut versions: Vec<u16> =
            ids.filter_map(|id| split_version(id)).filter(|(of, _)| *of == name).map(|(_, version)| version).collect();
        versions.sort_unstable();
        versions
    }
}

impl fmt::Debug for SchemaRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SchemaRegistry").field(&self.ids()).finish()
    }
}
