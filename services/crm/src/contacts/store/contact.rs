//! Contacts themselves.

use crate::contacts::model::{Contact, ContactValues};
use onceward::{DbError, Row, Tx};
use serde_json::{Map, Value};
use uuid::Uuid;

const FIND: &str = "
    SELECT contact_id, kind, display_name, given_name, family_name, phone, locale, jurisdiction, company_id, owner_id, tags,
        labels, custom, version, created_at, updated_at, erased_at
    FROM crm.contact
    WHERE contact_id = $1";
const LOCK: &str = "
    SELECT contact_id, kind, display_name, given_name, family_name, phone, locale, jurisdiction, company_id, owner_id, tags,
        labels, custom, version, created_at, updated_at, erased_at
    FROM crm.contact
    WHERE contact_id = $1
    FOR NO KEY UPDATE";
const INSERT: &str = "
    INSERT INTO crm.contact (tenant_id, contact_id, kind, display_name, given_name, family_name, phone, locale, jurisdiction,
        company_id, custom, owner_id, tags, labels)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const UPDATE_VALUES: &str = "
    UPDATE crm.contact
    SET display_name = $2, given_name = $3, family_name = $4, phone = $5, locale = $6, jurisdiction = $7, company_id = $8,
        custom = $9, version = version + 1, updated_at = now()
    WHERE contact_id = $1";
const UPDATE_OWNER: &str =
    "UPDATE crm.contact SET owner_id = $2, version = version + 1, updated_at = now() WHERE contact_id = $1";
const UPDATE_TAGS: &str =
    "UPDATE crm.contact SET tags = $2, version = version + 1, updated_at = now() WHERE contact_id = $1";
const UPDATE_LABELS: &str =
    "UPDATE crm.contact SET labels = $2, version = version + 1, updated_at = now() WHERE contact_id = $1";
const ERASE: &str = "
    UPDATE crm.contact
    SET display_name = '', given_name = NULL, family_name = NULL, phone = NULL, locale = NULL, company_id = NULL, tags = '{}',
        labels = '{}', custom = '{}', version = version + 1, updated_at = now(), erased_at = now()
    WHERE contact_id = $1";

/// A contact to be stored.
pub(in crate::contacts) struct ContactInsert<'c> {
    pub contact_id: Uuid,
    pub values: &'c ContactValues,
    pub owner_id: Option<&'c str>,
    pub tags: &'c [String],
    pub labels: &'c Value,
}

pub(in crate::contacts) async fn find_contact(tx: &Tx, id: Uuid) -> Result<Option<Contact>, DbError> {
    Ok(tx.query_opt(FIND, &[&id]).await?.as_ref().map(read_contact))
}

/// Locks a contact, and with it its addresses, links and flags, until the transaction ends.
pub(in crate::contacts) async fn lock_contact(tx: &Tx, id: Uuid) -> Result<Option<Contact>, DbError> {
    Ok(tx.query_opt(LOCK, &[&id]).await?.as_ref().map(read_contact))
}

pub(in crate::contacts) async fn insert_contact(tx: &Tx, new: &ContactInsert<'_>) -> Result<(), DbError> {
    let ContactInsert { contact_id, values, owner_id, tags, labels } = new;
    let custom = Value::Object(values.custom.clone());
    tx.execute(
        INSERT,
        &[
            &tx.tenant()?.as_str(),
            contact_id,
            &values.kind,
            &values.display_name,
            &values.given_name,
            &values.family_name,
            &values.phone,
            &values.locale,
            &values.jurisdiction,
            &values.company_id,
            &custom,
            owner_id,
            tags,
            labels,
        ],
    )
    .await
    .map(drop)
}

pub(in crate::contacts) async fn update_values(tx: &Tx, id: Uuid, values: &ContactValues) -> Result<(), DbError> {
    let ContactValues {
        kind: _,
        display_name,
        given_name,
        family_name,
        phone,
        locale,
        jurisdiction,
        company_id,
        custom,
    } = values;
    let custom = Value::Object(custom.clone());
    tx.execute(
        UPDATE_VALUES,
        &[&id, display_name, given_name, family_name, phone, locale, jurisdiction, company_id, &custom],
    )
    .await
    .map(drop)
}

pub(in crate::contacts) async fn update_owner(tx: &Tx, id: Uuid, owner_id: Option<&str>) -> Result<(), DbError> {
    tx.execute(UPDATE_OWNER, &[&id, &owner_id]).await.map(drop)
}

pub(in crate::contacts) async fn update_tags(tx: &Tx, id: Uuid, tags: &[String]) -> Result<(), DbError> {
    tx.execute(UPDATE_TAGS, &[&id, &tags]).await.map(drop)
}

pub(in crate::contacts) async fn update_labels(tx: &Tx, id: Uuid, labels: &Value) -> Result<(), DbError> {
    tx.execute(UPDATE_LABELS, &[&id, labels]).await.map(drop)
}

/// Empties everything personal.
pub(in crate::contacts) async fn erase_contact(tx: &Tx, id: Uuid) -> Result<(), DbError> {
    tx.execute(ERASE, &[&id]).await.map(drop)
}

pub(super) fn read_contact(row: &Row) -> Contact {
    let custom: Value = row.get("custom");
    let values = ContactValues {
        kind: row.get("kind"),
        display_name: row.get("display_name"),
        given_name: row.get("given_name"),
        family_name: row.get("family_name"),
        phone: row.get("phone"),
        locale: row.get("locale"),
        jurisdiction: row.get("jurisdiction"),
        company_id: row.get("company_id"),
        custom: match custom {
            Value::Object(custom) => custom,
            _ => Map::new(),
        },
    };
    Contact {
        contact_id: row.get("contact_id"),
        values,
        owner_id: row.get("owner_id"),
        tags: row.get("tags"),
        labels: row.get("labels"),
        version: row.get("version"),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
        erased_at: row.get("erased_at"),
    }
}
