//! Adds, changes and removes addresses. A contact with addresses has one primary address.

use super::lock;
use crate::{
    CrmError,
    changes::{self, Change},
    contacts::{
        model::MAX_ADDRESSES,
        store::{self, ContactAddress},
    },
    keys::{AddressHasher, CrmKeys},
};
use jiff::Timestamp;
use onceward::Tx;
use onceward_mail::address::EmailAddress;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// An address to be added.
#[derive(Debug, Deserialize)]
pub(in crate::contacts) struct AddressDraft {
    pub address: String,
    pub label: Option<String>,
    #[serde(default)]
    pub is_primary: bool,
    #[serde(default)]
    pub is_verified: bool,
}

/// Changes to an address. What is `None` stays as it is.
#[derive(Debug, Deserialize)]
pub(in crate::contacts) struct AddressPatch {
    pub label: Option<String>,
    pub is_primary: Option<bool>,
    pub is_verified: Option<bool>,
}

/// Adds an address and returns its id. The first one becomes primary.
pub(in crate::contacts) async fn add_address(
    tx: &mut Tx,
    keys: &CrmKeys,
    contact_id: Uuid,
    draft: AddressDraft,
) -> Result<Uuid, CrmError> {
    lock(tx, contact_id, None).await?;
    let existing = all(tx, contact_id).await?;
    let hasher = keys.address_hasher(tx).await?;
    let mut new = parse(&hasher, contact_id, draft, "/address")?;
    check_new(&existing, &new, "/address")?;
    let becomes_primary = new.is_primary || existing.is_empty();
    new.is_primary = false;
    store::insert_address(tx, &new).await?;
    if becomes_primary {
        store::make_primary(tx, contact_id, new.address_id).await?;
    }
    new.is_primary = becomes_primary;
    let change = change("CRM.ADDRESS.ADDED", &new).new_value(view(&new, primary_of(&existing)));
    changes::record(tx, change).await?;
    Ok(new.address_id)
}

/// Inserts the first addresses of a new contact and returns their hashes.
pub(super) async fn insert_first(
    tx: &Tx,
    hasher: &AddressHasher,
    contact_id: Uuid,
    drafts: Vec<AddressDraft>,
) -> Result<Vec<Vec<u8>>, CrmError> {
    let primary = drafts.iter().position(|draft| draft.is_primary).unwrap_or(0);
    let mut inserted: Vec<ContactAddress> = Vec::new();
    for (index, draft) in drafts.into_iter().enumerate() {
        let pointer = format!("/addresses/{index}/address");
        let mut new = parse(hasher, contact_id, draft, &pointer)?;
        check_new(&inserted, &new, &pointer)?;
        new.is_primary = index == primary;
        store::insert_address(tx, &new).await?;
        inserted.push(new);
    }
    Ok(inserted.into_iter().map(|address| address.address_hash).collect())
}

/// Changes the label of an address, marks it as verified or not, or makes it the primary one.
pub(in crate::contacts) async fn update_address(
    tx: &mut Tx,
    contact_id: Uuid,
    address_id: Uuid,
    patch: AddressPatch,
) -> Result<(), CrmError> {
    lock(tx, contact_id, None).await?;
    let before = store::find_address(tx, contact_id, address_id).await?.ok_or(CrmError::NotFound("address"))?;
    if before.is_primary && patch.is_primary == Some(false) {
        let what = "A contact with addresses has a primary one: make another address primary instead.";
        return Err(CrmError::invalid("/is_primary", what));
    }
    let is_verified = patch.is_verified.unwrap_or(before.verified_at.is_some());
    let after = ContactAddress {
        label: patch.label.or_else(|| before.label.clone()),
        is_primary: before.is_primary || patch.is_primary == Some(true),
        verified_at: is_verified.then(|| before.verified_at.unwrap_or_else(Timestamp::now)),
        ..before.clone()
    };
    let previous = all(tx, contact_id).await?;
    let (old, new) = (view(&before, primary_of(&previous)), view(&after, primary_of(&previous)));
    if old == new {
        return Ok(());
    }
    store::update_address(tx, address_id, after.label.as_deref(), is_verified).await?;
    if after.is_primary && !before.is_primary {
        store::make_primary(tx, contact_id, address_id).await?;
    }
    changes::record(tx, change("CRM.ADDRESS.UPDATED", &after).old(old).new_value(new)).await
}

/// Removes an address. If it was the primary one, the oldest other one becomes primary.
pub(in crate::contacts) async fn remove_address(
    tx: &mut Tx,
    contact_id: Uuid,
    address_id: Uuid,
) -> Result<(), CrmError> {
    lock(tx, contact_id, None).await?;
    let addresses = all(tx, contact_id).await?;
    let address = addresses.iter().find(|address| address.address_id == address_id);
    let address = address.ok_or(CrmError::NotFound("address"))?;
    store::delete_address(tx, address_id).await?;
    let next = addresses.iter().find(|other| other.address_id != address_id);
    let next = next.filter(|_| address.is_primary);
    if let Some(next) = next {
        store::make_primary(tx, contact_id, next.address_id).await?;
    }
    let old = view(address, primary_of(&addresses));
    let new =
        json!({ "primary": next.map(|next| hex::encode(&next.address_hash)).or(primary_after(address, &addresses)) });
    changes::record(tx, change("CRM.ADDRESS.REMOVED", address).old(old).new_value(new)).await
}

fn parse(
    hasher: &AddressHasher,
    contact_id: Uuid,
    draft: AddressDraft,
    pointer: &str,
) -> Result<ContactAddress, CrmError> {
    let address = EmailAddress::parse(&draft.address).map_err(|error| CrmError::invalid(pointer, error))?;
    let now = Timestamp::now();
    Ok(ContactAddress {
        address_id: Uuid::now_v7(),
        contact_id,
        address: address.as_str().to_owned(),
        address_hash: hasher.hash(&address),
        label: draft.label,
        is_primary: draft.is_primary,
        verified_at: draft.is_verified.then_some(now),
        created_at: now,
    })
}

fn check_new(existing: &[ContactAddress], new: &ContactAddress, pointer: &str) -> Result<(), CrmError> {
    if existing.iter().any(|address| address.address_hash == new.address_hash) {
        return Err(CrmError::AlreadyExists("The contact has this address already: change it instead.".into()));
    }
    if existing.len() >= MAX_ADDRESSES {
        let what = format!("A contact may have {MAX_ADDRESSES} addresses at the most: remove one first.");
        return Err(CrmError::invalid(pointer, what));
    }
    Ok(())
}

async fn all(tx: &Tx, contact_id: Uuid) -> Result<Vec<ContactAddress>, CrmError> {
    Ok(store::list_addresses(tx, contact_id, i64::try_from(MAX_ADDRESSES).unwrap_or(i64::MAX)).await?)
}

fn primary_of(addresses: &[ContactAddress]) -> Option<String> {
    addresses.iter().find(|address| address.is_primary).map(|address| hex::encode(&address.address_hash))
}

/// Returns the primary address that stays after another one was removed.
fn primary_after(removed: &ContactAddress, addresses: &[ContactAddress]) -> Option<String> {
    primary_of(addresses).filter(|_| !removed.is_primary)
}

fn change(event_type: &'static str, address: &ContactAddress) -> Change {
    Change::new(event_type, "address", address.address_id)
        .contact(address.contact_id)
        .detail(json!({ "address_id": address.address_id }))
}

/// Returns an address as the audit chain shows it. `primary` is the contact's primary address if it is not this one.
fn view(address: &ContactAddress, primary: Option<String>) -> Value {
    let hash = hex::encode(&address.address_hash);
    json!({
        "primary": if address.is_primary { Some(&hash) } else { primary.as_ref() },
        "address": hash,
        "label": address.label,
        "is_primary": address.is_primary,
        "is_verified": address.verified_at.is_some(),
    })
}
