//! Addresses of contacts.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;
use uuid::Uuid;

const LIST: &str = "
    SELECT address_id, contact_id, address, address_hash, label, is_primary, verified_at, created_at
    FROM crm.contact_address
    WHERE contact_id = $1
    ORDER BY address_id
    LIMIT $2";
const FIND: &str = "
    SELECT address_id, contact_id, address, address_hash, label, is_primary, verified_at, created_at
    FROM crm.contact_address
    WHERE address_id = $1 AND contact_id = $2";
const INSERT: &str = "
    INSERT INTO crm.contact_address (tenant_id, address_id, contact_id, address, address_hash, label, is_primary, verified_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $8 THEN now() END)";
const UPDATE: &str = "
    UPDATE crm.contact_address
    SET label = $2, verified_at = CASE WHEN $3 THEN coalesce(verified_at, now()) END
    WHERE address_id = $1";
const CLEAR_PRIMARY: &str = "UPDATE crm.contact_address SET is_primary = false WHERE contact_id = $1 AND is_primary";
const SET_PRIMARY: &str = "UPDATE crm.contact_address SET is_primary = true WHERE address_id = $1";
const DELETE: &str = "DELETE FROM crm.contact_address WHERE address_id = $1";
const DELETE_ALL: &str = "DELETE FROM crm.contact_address WHERE contact_id = $1";

/// An address of a contact.
#[derive(Clone, Debug, Serialize)]
pub(in crate::contacts) struct ContactAddress {
    pub address_id: Uuid,
    #[serde(skip)]
    pub contact_id: Uuid,
    pub address: String,
    #[serde(skip)]
    pub address_hash: Vec<u8>,
    pub label: Option<String>,
    pub is_primary: bool,
    pub verified_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

pub(in crate::contacts) async fn list_addresses(
    tx: &Tx,
    contact_id: Uuid,
    limit: i64,
) -> Result<Vec<ContactAddress>, DbError> {
    Ok(tx.query(LIST, &[&contact_id, &limit]).await?.iter().map(read).collect())
}

pub(in crate::contacts) async fn find_address(
    tx: &Tx,
    contact_id: Uuid,
    address_id: Uuid,
) -> Result<Option<ContactAddress>, DbError> {
    Ok(tx.query_opt(FIND, &[&address_id, &contact_id]).await?.as_ref().map(read))
}

/// Inserts an address. `verified_at` counts only as set or not: the time is now.
pub(in crate::contacts) async fn insert_address(tx: &Tx, new: &ContactAddress) -> Result<(), DbError> {
    let ContactAddress { address_id, contact_id, address, address_hash, label, is_primary, verified_at, .. } = new;
    let (tenant, is_verified) = (tx.tenant()?.as_str(), verified_at.is_some());
    tx.execute(INSERT, &[&tenant, address_id, contact_id, address, address_hash, label, is_primary, &is_verified])
        .await
        .map(drop)
}

pub(in crate::contacts) async fn update_address(
    tx: &Tx,
    address_id: Uuid,
    label: Option<&str>,
    is_verified: bool,
) -> Result<(), DbError> {
    tx.execute(UPDATE, &[&address_id, &label, &is_verified]).await.map(drop)
}

/// Makes an address the primary one of its contact, instead of any other.
pub(in crate::contacts) async fn make_primary(tx: &Tx, contact_id: Uuid, address_id: Uuid) -> Result<(), DbError> {
    tx.execute(CLEAR_PRIMARY, &[&contact_id]).await?;
    tx.execute(SET_PRIMARY, &[&address_id]).await.map(drop)
}

pub(in crate::contacts) async fn delete_address(tx: &Tx, address_id: Uuid) -> Result<(), DbError> {
    tx.execute(DELETE, &[&address_id]).await.map(drop)
}

/// Deletes every address of a contact, and returns their number.
pub(in crate::contacts) async fn delete_addresses(tx: &Tx, contact_id: Uuid) -> Result<u64, DbError> {
    tx.execute(DELETE_ALL, &[&contact_id]).await
}

fn read(row: &Row) -> ContactAddress {
    ContactAddress {
        address_id: row.get("address_id"),
        contact_id: row.get("contact_id"),
        address: row.get("address"),
        address_hash: row.get("address_hash"),
        label: row.get("label"),
        is_primary: row.get("is_primary"),
        verified_at: row.get("verified_at"),
        created_at: row.get("created_at"),
    }
}
