//! Changes the fields, the owner, the tags and the labels of a contact.

use super::lock;
use crate::{
    CrmError,
    changes::{self, Change},
    contacts::{
        model::{Contact, ContactPatch, differences},
        store,
    },
    keys::CrmKeys,
};
use onceward::Tx;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Changes fields of a contact. The audit entry shows those that changed.
pub(in crate::contacts) async fn update(
    tx: &mut Tx,
    keys: &CrmKeys,
    contact_id: Uuid,
    patch: ContactPatch,
) -> Result<(), CrmError> {
    let before = lock(tx, contact_id, patch.version).await?.values;
    let after = patch.apply(&before)?;
    if before == after {
        return Ok(());
    }
    if after.company_id != before.company_id {
        check_company(tx, contact_id, after.company_id).await?;
    }
    store::update_values(tx, contact_id, &after).await?;
    let hasher = keys.address_hasher(tx).await?;
    let (mut old, mut new) = (before.audit_view(&hasher), after.audit_view(&hasher));
    differences(&mut old, &mut new);
    let mut fields: Vec<String> = new.keys().cloned().collect();
    fields.sort_unstable();
    let change = Change::new("CRM.CONTACT.UPDATED", "contact", contact_id)
        .contact(contact_id)
        .detail(json!({ "fields": fields }))
        .old(Value::Object(old))
        .new_value(Value::Object(new));
    changes::record(tx, change).await
}

/// Sets or removes the owner of a contact.
pub(in crate::contacts) async fn set_owner(
    tx: &mut Tx,
    contact_id: Uuid,
    owner_id: Option<&str>,
    version: Option<i32>,
) -> Result<(), CrmError> {
    let Contact { owner_id: before, .. } = lock(tx, contact_id, version).await?;
    if before.as_deref() == owner_id {
        return Ok(());
    }
    store::update_owner(tx, contact_id, owner_id).await?;
    let values = (json!({ "owner_id": before }), json!({ "owner_id": owner_id }));
    record(tx, "CRM.OWNER.CHANGED", contact_id, values).await
}

/// Replaces the tags of a contact.
pub(in crate::contacts) async fn set_tags(
    tx: &mut Tx,
    contact_id: Uuid,
    tags: Vec<String>,
    version: Option<i32>,
) -> Result<(), CrmError> {
    let tags = sorted(tags);
    let Contact { tags: before, .. } = lock(tx, contact_id, version).await?;
    if before == tags {
        return Ok(());
    }
    store::update_tags(tx, contact_id, &tags).await?;
    record(tx, "CRM.TAGS.CHANGED", contact_id, (json!({ "tags": before }), json!({ "tags": tags }))).await
}

/// Replaces the labels of a contact.
pub(in crate::contacts) async fn set_labels(
    tx: &mut Tx,
    contact_id: Uuid,
    labels: BTreeMap<String, String>,
    version: Option<i32>,
) -> Result<(), CrmError> {
    let labels = json!(labels);
    let Contact { labels: before, .. } = lock(tx, contact_id, version).await?;
    if before == labels {
        return Ok(());
    }
    store::update_labels(tx, contact_id, &labels).await?;
    record(tx, "CRM.LABELS.CHANGED", contact_id, (json!({ "labels": before }), json!({ "labels": labels }))).await
}

/// Fails unless the company is one of the tenant's companies and another contact.
pub(super) async fn check_company(tx: &Tx, contact_id: Uuid, company_id: Option<Uuid>) -> Result<(), CrmError> {
    let Some(company_id) = company_id else { return Ok(()) };
    let company = store::find_contact(tx, company_id).await?;
    let is_company = company.is_some_and(|company| company.values.kind == "company" && company.erased_at.is_none());
    if is_company && company_id != contact_id {
        return Ok(());
    }
    Err(CrmError::invalid("/company_id", "There is no other contact with this id that is a company: create it first."))
}

/// Returns the tags in order, each once.
pub(super) fn sorted(mut tags: Vec<String>) -> Vec<String> {
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// Records a change of values that are not personal, which the timeline shows.
async fn record(
    tx: &mut Tx,
    event_type: &'static str,
    contact_id: Uuid,
    (old, new): (Value, Value),
) -> Result<(), CrmError> {
    let change =
        Change::new(event_type, "contact", contact_id).contact(contact_id).detail(new.clone()).old(old).new_value(new);
    changes::record(tx, change).await
}
