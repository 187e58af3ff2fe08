//! Links a contact to objects of other services.

use super::{loan_of, lock};
use crate::{
    CrmError,
    changes::{self, Change},
    contacts::{model::MAX_LINKS, store},
};
use onceward::Tx;
use serde_json::json;
use uuid::Uuid;

/// Links a contact to an object. Returns `false` if the link exists.
pub(in crate::contacts) async fn add_link(
    tx: &mut Tx,
    contact_id: Uuid,
    (object_type, object_id): (&str, &str),
    relation: &str,
) -> Result<bool, CrmError> {
    lock(tx, contact_id, None).await?;
    match store::find_link(tx, contact_id, object_type, object_id).await? {
        Some(link) if link.relation == relation => return Ok(false),
        Some(link) => {
            let what = format!("The contact is linked to this object as {}: remove that link first.", link.relation);
            return Err(CrmError::AlreadyExists(what));
        }
        None => {}
    }
    let limit = i64::try_from(MAX_LINKS).unwrap_or(i64::MAX);
    if store::list_links(tx, contact_id, limit).await?.len() >= MAX_LINKS {
        let what = format!("A contact may have {MAX_LINKS} links at the most: remove one first.");
        return Err(CrmError::invalid("/object_id", what));
    }
    store::insert_link(tx, contact_id, object_type, object_id, relation).await?;
    let link = json!({ "object_type": object_type, "object_id": object_id, "relation": relation });
    let change = Change::new("CRM.LINK.ADDED", "contact", contact_id)
        .contact(contact_id)
        .loan(loan_of(object_type, object_id))
        .detail(link.clone())
        .new_value(link);
    changes::record(tx, change).await?;
    Ok(true)
}

/// Removes a link.
pub(in crate::contacts) async fn remove_link(
    tx: &mut Tx,
    contact_id: Uuid,
    (object_type, object_id): (&str, &str),
) -> Result<(), CrmError> {
    lock(tx, contact_id, None).await?;
    let link = store::find_link(tx, contact_id, object_type, object_id).await?.ok_or(CrmError::NotFound("link"))?;
    store::delete_link(tx, contact_id, object_type, object_id).await?;
    let link = json!({ "object_type": object_type, "object_id": object_id, "relation": link.relation });
    let change = Change::new("CRM.LINK.REMOVED", "contact", contact_id)
        .contact(contact_id)
        .loan(loan_of(object_type, object_id))
        .detail(link.clone())
        .old(link);
    changes::record(tx, change).await
}
