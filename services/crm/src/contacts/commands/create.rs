//! Creates a contact, with its first addresses.

use super::{AddressDraft, addresses, update};
use crate::{
    CrmError,
    changes::{self, Change},
    contacts::{
        model::{ContactPatch, ContactValues},
        store::{self, ContactInsert},
    },
    keys::CrmKeys,
};
use onceward::Tx;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A contact to be created.
#[derive(Debug, Deserialize)]
pub(in crate::contacts) struct ContactDraft {
    pub kind: String,
    #[serde(flatten)]
    pub values: ContactPatch,
    pub owner_id: Option<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The first one is primary unless another one says so.
    #[serde(default)]
    pub addresses: Vec<AddressDraft>,
}

/// Creates a contact and returns its id.
pub(in crate::contacts) async fn create(tx: &mut Tx, keys: &CrmKeys, draft: ContactDraft) -> Result<Uuid, CrmError> {
    let contact_id = Uuid::now_v7();
    let values = draft.values.apply(&empty(draft.kind))?;
    update::check_company(tx, contact_id, values.company_id).await?;
    let hasher = keys.address_hasher(tx).await?;
    let tags = update::sorted(draft.tags);
    let labels = json!(draft.labels);
    let owner_id = draft.owner_id.as_deref();
    let new = ContactInsert { contact_id, values: &values, owner_id, tags: &tags, labels: &labels };
    store::insert_contact(tx, &new).await?;
    let added = addresses::insert_first(tx, &hasher, contact_id, draft.addresses).await?;
    let mut view = values.audit_view(&hasher);
    view.insert("owner_id".into(), json!(owner_id));
    view.insert("tags".into(), json!(tags));
    view.insert("labels".into(), labels);
    view.insert("addresses".into(), json!(added.iter().map(hex::encode).collect::<Vec<_>>()));
    let change = Change::new("CRM.CONTACT.CREATED", "contact", contact_id)
        .contact(contact_id)
        .new_value(Value::Object(view))
        .detail(json!({ "kind": values.kind, "addresses": added.len() }));
    changes::record(tx, change).await?;
    Ok(contact_id)
}

fn empty(kind: String) -> ContactValues {
    ContactValues {
        kind,
        display_name: String::new(),
        given_name: None,
        family_name: None,
        phone: None,
        locale: None,
        jurisdiction: None,
        company_id: None,
        custom: Map::new(),
    }
}
