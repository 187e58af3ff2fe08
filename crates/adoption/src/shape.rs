//! What is adopted, and as what.

use crate::{AdoptionError, store};
use onceward::TenantId;
use tokio_postgres::Client;

/// A legacy database and its place in the new world. The first run keeps it; later ones must say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The schema that holds the legacy tables.
    pub schema: String,
    /// Whose rows they are.
    pub tenant: TenantId,
    /// Where messages of the legacy outbox go; without one, the outbox is left alone.
    pub exchange: Option<String>,
}

impl Shape {
    /// Checks the names, which become part of statements.
    pub fn new(schema: &str, tenant: TenantId, exchange: Option<&str>) -> Result<Self, AdoptionError> {
        let plain = |name: &str, more: &str| {
            let fits = |character: char| character.is_ascii_alphanumeric() || more.contains(character);
            !name.is_empty() && name.len() <= 63 && name.chars().all(fits)
        };
        if !plain(schema, "_") {
            return Err(AdoptionError::Refused(format!("{schema:?} is not a schema's name of letters, digits and _")));
        }
        if let Some(exchange) = exchange.filter(|name| !plain(name, "._-")) {
            return Err(AdoptionError::Refused(format!("{exchange:?} is not an exchange's name")));
        }
        Ok(Self { schema: schema.to_owned(), tenant, exchange: exchange.map(str::to_owned) })
    }

    /// What an earlier run has kept.
    pub async fn kept(client: &Client) -> Result<Option<Self>, AdoptionError> {
        if !store::is_begun(client).await? {
            return Ok(None);
        }
        let Some((schema, tenant, exchange)) = store::shape(client).await? else {
            return Ok(None);
        };
        let tenant = TenantId::new(tenant).map_err(|error| AdoptionError::Refused(error.to_string()))?;
        Ok(Some(Self::new(&schema, tenant, exchange.as_deref())?))
    }

    /// Keeps it, or refuses if another one is kept.
    pub(crate) async fn keep(&self, client: &Client) -> Result<(), AdoptionError> {
        store::keep_shape(client, self).await?;
        match Self::kept(client).await? {
            Some(kept) if kept == *self => Ok(()),
            Some(Self { schema, tenant, exchange }) => Err(AdoptionError::Refused(format!(
                "this database is being adopted with --schema {schema} --tenant {tenant} and exchange {exchange:?}: say the same"
            ))),
            None => Err(AdoptionError::Refused("what is adopted could not be kept".into())),
        }
    }

    /// A statement for one of the legacy tables.
    pub(crate) fn fill(&self, template: &str, values: &[(&str, &str)]) -> String {
        let own = [("@schema", self.schema.as_str()), ("@tenant", self.tenant.as_str())];
        own.iter().chain(values).fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}
