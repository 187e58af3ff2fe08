//! Contacts: people and companies, with everything that decides whether they may be written to.
//!
//! Every change is one commit with one audit entry. Names, phone numbers, addresses, notes and custom text appear in it as
//! hashes under the tenant's key; tags, labels, owners, classes and reasons as they are. Reading order: `model` (what a
//! contact is), `commands` (one file per area), `store`, `routes`.

mod commands;
mod model;
mod routes;
mod schemas;
mod store;

pub(crate) use routes::routes;
pub(crate) use schemas::SCHEMAS;

use crate::CrmError;
use onceward::Tx;
use uuid::Uuid;

/// Fails if the tenant has no such contact. An erased contact exists.
pub(crate) async fn require(tx: &Tx, contact_id: Uuid) -> Result<(), CrmError> {
    store::find_contact(tx, contact_id).await?.map(drop).ok_or(CrmError::NotFound("contact"))
}
