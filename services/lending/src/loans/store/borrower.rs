//! Borrowers.

use jiff::Timestamp;
use onceward::{DbError, Tx};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const INSERT: &str = "INSERT INTO lending.borrower_entities \
     (tenant_id, borrower_entity_id, kind, display_name, email, external_ref) VALUES ($1, $2, $3, $4, $5, $6) \
     ON CONFLICT DO NOTHING RETURNING created_at";
const FIND: &str = "SELECT kind, display_name, email, external_ref, created_at FROM lending.borrower_entities \
     WHERE borrower_entity_id = $1";
const EXISTS: &str = "SELECT EXISTS (SELECT FROM lending.borrower_entities WHERE borrower_entity_id = $1)";

/// The data of a new borrower.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NewBorrower {
    pub kind: String,
    pub display_name: String,
    pub email: Option<String>,
    pub external_ref: Option<String>,
}

/// A borrower.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Borrower {
    pub borrower_entity_id: Uuid,
    #[serde(flatten)]
    pub data: NewBorrower,
    pub created_at: Timestamp,
}

/// Returns `None` if another borrower has the same reference.
pub(crate) async fn insert_borrower(tx: &Tx, id: Uuid, data: NewBorrower) -> Result<Option<Borrower>, DbError> {
    let NewBorrower { kind, display_name, email, external_ref } = &data;
    let row = tx.query_opt(INSERT, &[&tx.tenant()?.as_str(), &id, kind, display_name, email, external_ref]).await?;
    Ok(row.map(|row| Borrower { borrower_entity_id: id, data, created_at: row.get(0) }))
}

pub(crate) async fn find_borrower(tx: &Tx, id: Uuid) -> Result<Option<Borrower>, DbError> {
    let row = tx.query_opt(FIND, &[&id]).await?;
    Ok(row.map(|row| Borrower {
        borrower_entity_id: id,
        data: NewBorrower { kind: row.get(0), display_name: row.get(1), email: row.get(2), external_ref: row.get(3) },
        created_at: row.get(4),
    }))
}

pub(crate) async fn has_borrower(tx: &Tx, id: Uuid) -> Result<bool, DbError> {
    Ok(tx.query_one(EXISTS, &[&id]).await?.get(0))
}
