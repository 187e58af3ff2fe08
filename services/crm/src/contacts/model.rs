//! What a contact is, and how changes to it appear in the audit chain.

use crate::{CrmError, keys::AddressHasher};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Custom fields per contact.
pub(super) const MAX_CUSTOM_FIELDS: usize = 50;
/// Addresses per contact.
pub(super) const MAX_ADDRESSES: usize = 50;
/// Links per contact.
pub(super) const MAX_LINKS: usize = 200;

/// A contact as it is stored.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Contact {
    pub contact_id: Uuid,
    #[serde(flatten)]
    pub values: ContactValues,
    pub owner_id: Option<String>,
    pub tags: Vec<String>,
    pub labels: Value,
    pub version: i32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub erased_at: Option<Timestamp>,
}

/// The fields that a PATCH changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ContactValues {
    pub kind: String,
    pub display_name: String,
    pub given_name: Option<String>,
    pub family_name: Option<String>,
    pub phone: Option<String>,
    pub locale: Option<String>,
    pub jurisdiction: Option<String>,
    pub company_id: Option<Uuid>,
    pub custom: Map<String, Value>,
}

/// Changes to a contact. `None` leaves a field as it is, `Some(None)` empties it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ContactPatch {
    pub version: Option<i32>,
    pub display_name: Option<String>,
    #[serde(default, deserialize_with = "null_or_value")]
    pub given_name: Option<Option<String>>,
    #[serde(default, deserialize_with = "null_or_value")]
    pub family_name: Option<Option<String>>,
    #[serde(default, deserialize_with = "null_or_value")]
    pub phone: Option<Option<String>>,
    #[serde(default, deserialize_with = "null_or_value")]
    pub locale: Option<Option<String>>,
    #[serde(default, deserialize_with = "null_or_value")]
    pub jurisdiction: Option<Option<String>>,
    #[serde(default, deserialize_with = "null_or_value")]
    pub company_id: Option<Option<Uuid>>,
    /// Fields to set; null removes one.
    #[serde(default)]
    pub custom: Map<String, Value>,
}

/// Distinguishes `null` from an absent field.
fn null_or_value<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// Consent to one class of mail, given or withdrawn.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ConsentRecord {
    pub class: String,
    pub is_given: bool,
    pub basis: String,
    pub source: String,
    pub text_version: String,
}

impl ContactPatch {
    /// Returns the values after the change.
    pub(super) fn apply(&self, before: &ContactValues) -> Result<ContactValues, CrmError> {
        let mut after = before.clone();
        let set = |field: &mut Option<String>, patch: &Option<Option<String>>| {
            if let Some(value) = patch {
                field.clone_from(value);
            }
        };
        if let Some(name) = &self.display_name {
            after.display_name.clone_from(name);
        }
        set(&mut after.given_name, &self.given_name);
        set(&mut after.family_name, &self.family_name);
        set(&mut after.phone, &self.phone);
        set(&mut after.locale, &self.locale);
        set(&mut after.jurisdiction, &self.jurisdiction);
        if let Some(company_id) = self.company_id {
            after.company_id = company_id;
        }
        for (name, value) in &self.custom {
            match value {
                Value::Null => after.custom.remove(name),
                value => after.custom.insert(name.clone(), value.clone()),
            };
        }
        if after.custom.len() > MAX_CUSTOM_FIELDS {
            let what =
                format!("A contact may have {MAX_CUSTOM_FIELDS} custom fields at the most: remove some with null.");
            return Err(CrmError::invalid("/custom", what));
        }
        Ok(after)
    }
}

impl ContactValues {
    /// Returns the fields as the audit chain shows them.
    pub(super) fn audit_view(&self, hasher: &AddressHasher) -> Map<String, Value> {
        let hash = |text: &Option<String>| text.as_ref().map(|text| text_hash(hasher, text));
        let view = json!({
            "kind": self.kind,
            "display_name": text_hash(hasher, &self.display_name),
            "given_name": hash(&self.given_name),
            "family_name": hash(&self.family_name),
            "phone": hash(&self.phone),
            "locale": self.locale,
            "jurisdiction": self.jurisdiction,
            "company_id": self.company_id,
            "custom": custom_view(hasher, &self.custom),
        });
        match view {
            Value::Object(view) => view,
            _ => Map::new(),
        }
    }
}

/// Returns the hash by which the audit chain knows a personal text.
pub(super) fn text_hash(hasher: &AddressHasher, text: &str) -> String {
    hex::encode(hasher.hash_text(text))
}

/// Reduces both views to the fields that differ.
pub(super) fn differences(old: &mut Map<String, Value>, new: &mut Map<String, Value>) {
    let same: Vec<String> =
        new.iter().filter(|(name, value)| old.get(*name) == Some(value)).map(|(name, _)| name.clone()).collect();
    for name in same {
        old.remove(&name);
        new.remove(&name);
    }
}

/// Numbers and truth values appear as they are, text as its hash.
fn custom_view(hasher: &AddressHasher, custom: &Map<String, Value>) -> Map<String, Value> {
    let view = custom.iter().map(|(name, value)| match value {
        Value::String(text) => (name.clone(), text_hash(hasher, text).into()),
        value => (name.clone(), value.clone()),
    });
    view.collect()
}
