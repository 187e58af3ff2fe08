//! Commands on contacts. Each locks the contact, writes one audit entry, and writes nothing if nothing changes.

mod addresses;
mod assignments;
mod consents;
mod create;
mod do_not_contact;
mod erase;
mod links;
mod notes;
mod rules;
mod update;

pub(super) use addresses::{AddressDraft, AddressPatch, add_address, remove_address, update_address};
pub(super) use assignments::{remove_assignment, set_assignment};
pub(super) use consents::record_consent;
pub(super) use create::{ContactDraft, create};
pub(super) use do_not_contact::{lift_do_not_contact, set_do_not_contact};
pub(super) use erase::erase;
pub(super) use links::{add_link, remove_link};
pub(super) use notes::{add_note, remove_note};
pub(super) use rules::{remove_rule, set_rule};
pub(super) use update::{set_labels, set_owner, set_tags, update};

use super::{model::Contact, store};
use crate::CrmError;
use onceward::Tx;
use uuid::Uuid;

/// Locks a contact that is not erased. Fails if the caller has read another version.
async fn lock(tx: &Tx, contact_id: Uuid, version: Option<i32>) -> Result<Contact, CrmError> {
    let contact = store::lock_contact(tx, contact_id).await?.ok_or(CrmError::NotFound("contact"))?;
    if contact.erased_at.is_some() {
        return Err(CrmError::ContactErased);
    }
    match version {
        Some(version) if version != contact.version => Err(CrmError::ContactChanged { current: contact.version }),
        _ => Ok(contact),
    }
}

/// Returns the loan that an object is, for the audit chain's index.
fn loan_of<'o>(object_type: &str, object_id: &'o str) -> Option<&'o str> {
    (object_type == "loan").then_some(object_id)
}
