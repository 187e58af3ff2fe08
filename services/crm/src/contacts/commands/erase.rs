//! Erases a person: personal columns, addresses and notes are removed, and the key of their mails is forgotten. Hashes and
//! the audit chain stay.

use crate::{
    CrmError,
    changes::{self, Change},
    contacts::store,
    keys::CrmKeys,
    store::keys::forget_data_key,
};
use onceward::Tx;
use serde_json::json;
use uuid::Uuid;

/// Erases a contact. Has no effect on an erased one.
pub(in crate::contacts) async fn erase(tx: &mut Tx, keys: &CrmKeys, contact_id: Uuid) -> Result<(), CrmError> {
    let contact = store::lock_contact(tx, contact_id).await?.ok_or(CrmError::NotFound("contact"))?;
    if contact.erased_at.is_some() {
        return Ok(());
    }
    let addresses = store::delete_addresses(tx, contact_id).await?;
    let notes = store::delete_notes(tx, contact_id).await?;
    store::erase_contact(tx, contact_id).await?;
    // The key is created if there is none, so that no later mail can create one that is not forgotten.
    keys.data_key(tx, contact_id).await?;
    forget_data_key(tx, contact_id).await?;
    let change = Change::new("CRM.CONTACT.ERASED", "contact", contact_id)
        .contact(contact_id)
        .old(json!({ "version": contact.version, "is_erased": false }))
        .new_value(
            json!({ "version": contact.version + 1, "is_erased": true, "addresses": addresses, "notes": notes }),
        );
    changes::record(tx, change).await
}
