//! What is adopted: the legacy schema, and the tenant and exchange it maps to.

use crate::{AdoptionError, store};
use onceward::TenantId;
use tokio_postgres::Client;

/// Maps a legacy schema to a tenant and an exchange. The first run stores it; later runs must use the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyMapping {
    /// The schema that holds the legacy tables.
    pub schema: String,
    /// The tenant that owns the rows.
    pub tenant: TenantId,
    /// The exchange for messages of the legacy outbox. `None` leaves the outbox unchanged.
    pub exchange: Option<String>,
}

impl LegacyMapping {
    /// Creates a mapping. Fails if a name has characters that are not allowed: names become part of SQL statements.
    pub fn new(schema: &str, tenant: TenantId, exchange: Option<&str>) -> Result<Self, AdoptionError> {
        let valid = |name: &str, extra: &str| {
            let allowed = |character: char| character.is_ascii_alphanumeric() || extra.contains(character);
            !name.is_empty() && name.len() <= 63 && name.chars().all(allowed)
        };
        if !valid(schema, "_") {
            return Err(AdoptionError::Refused(format!(
                "schema name {schema:?} is invalid: use at most 63 letters, digits and _"
            )));
        }
        if let Some(exchange) = exchange.filter(|name| !valid(name, "._-")) {
            return Err(AdoptionError::Refused(format!(
                "exchange name {exchange:?} is invalid: use at most 63 letters, digits and . _ -"
            )));
        }
        Ok(Self { schema: schema.to_owned(), tenant, exchange: exchange.map(str::to_owned) })
    }

    /// Returns the mapping that an earlier run stored, if any.
    pub async fn load(client: &Client) -> Result<Option<Self>, AdoptionError> {
        if !store::has_started(client).await? {
            return Ok(None);
        }
        let Some((schema, tenant, exchange)) = store::mapping(client).await? else {
            return Ok(None);
        };
        let tenant = TenantId::new(tenant).map_err(|error| AdoptionError::Refused(error.to_string()))?;
        Ok(Some(Self::new(&schema, tenant, exchange.as_deref())?))
    }

    /// Stores the mapping. Fails if a different one is stored.
    pub(crate) async fn save(&self, client: &Client) -> Result<(), AdoptionError> {
        store::insert_mapping(client, self).await?;
        match Self::load(client).await? {
            Some(stored) if stored == *self => Ok(()),
            Some(Self { schema, tenant, exchange }) => Err(AdoptionError::Refused(format!(
                "this database is already being adopted with --schema {schema} --tenant {tenant} and exchange {exchange:?}; use the same"
            ))),
            None => Err(AdoptionError::Refused("the mapping could not be stored".into())),
        }
    }

    /// Replaces `@schema`, `@tenant` and the given placeholders in a statement.
    pub(crate) fn render(&self, template: &str, values: &[(&str, &str)]) -> String {
        let common = [("@schema", self.schema.as_str()), ("@tenant", self.tenant.as_str())];
        common.iter().chain(values).fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}
