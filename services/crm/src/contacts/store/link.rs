//! Links of contacts to objects of other services.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;
use uuid::Uuid;

const LIST: &str = "
    SELECT object_type, object_id, relation, created_at
    FROM crm.contact_link
    WHERE contact_id = $1
    ORDER BY object_type, object_id
    LIMIT $2";
const FIND: &str = "
    SELECT object_type, object_id, relation, created_at
    FROM crm.contact_link
    WHERE contact_id = $1 AND object_type = $2 AND object_id = $3";
const INSERT: &str = "
    INSERT INTO crm.contact_link (tenant_id, contact_id, object_type, object_id, relation)
    VALUES ($1, $2, $3, $4, $5)";
const DELETE: &str = "DELETE FROM crm.contact_link WHERE contact_id = $1 AND object_type = $2 AND object_id = $3";

/// An object that a contact is linked to, such as a loan.
#[derive(Clone, Debug, Serialize)]
pub(in crate::contacts) struct ContactLink {
    pub object_type: String,
    pub object_id: String,
    pub relation: String,
    pub created_at: Timestamp,
}

pub(in crate::contacts) async fn list_links(
    tx: &Tx,
    contact_id: Uuid,
    limit: i64,
) -> Result<Vec<ContactLink>, DbError> {
    Ok(tx.query(LIST, &[&contact_id, &limit]).await?.iter().map(read).collect())
}

pub(in crate::contacts) async fn find_link(
    tx: &Tx,
    contact_id: Uuid,
    object_type: &str,
    object_id: &str,
) -> Result<Option<ContactLink>, DbError> {
    Ok(tx.query_opt(FIND, &[&contact_id, &object_type, &object_id]).await?.as_ref().map(read))
}

pub(in crate::contacts) async fn insert_link(
    tx: &Tx,
    contact_id: Uuid,
    object_type: &str,
    object_id: &str,
    relation: &str,
) -> Result<(), DbError> {
    let tenant = tx.tenant()?.as_str();
    tx.execute(INSERT, &[&tenant, &contact_id, &object_type, &object_id, &relation]).await.map(drop)
}

pub(in crate::contacts) async fn delete_link(
    tx: &Tx,
    contact_id: Uuid,
    object_type: &str,
    object_id: &str,
) -> Result<(), DbError> {
    tx.execute(DELETE, &[&contact_id, &object_type, &object_id]).await.map(drop)
}

fn read(row: &Row) -> ContactLink {
    ContactLink {
        object_type: row.get("object_type"),
        object_id: row.get("object_id"),
        relation: row.get("relation"),
        created_at: row.get("created_at"),
    }
}
