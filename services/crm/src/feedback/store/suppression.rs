//! Suppressed addresses, by hash.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

/// More entries than an address can have: six classes and five reasons.
const OF_ADDRESS_MAX: i64 = 30;

/// Changes nothing if the entry is the same.
const PUT: &str = "INSERT INTO crm.suppression
        (tenant_id, address_hash, mail_class, reason, origin, evidence, since, until)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (address_hash, mail_class, reason, tenant_id) DO UPDATE
    SET origin = $5, evidence = $6, since = $7, until = $8
    WHERE suppression.until IS DISTINCT FROM $8";
const DELETE: &str = "DELETE FROM crm.suppression WHERE address_hash = $1 AND mail_class = $2 AND reason = $3";
const OF_ADDRESS: &str = "SELECT address_hash, mail_class, reason, origin, evidence, since, until FROM crm.suppression
    WHERE address_hash = $1 ORDER BY since DESC, mail_class, reason LIMIT $2";
/// The order is that of the index. The cursor is the last row of the page before.
const LIST: &str = "SELECT address_hash, mail_class, reason, origin, evidence, since, until FROM crm.suppression
    WHERE since < $1 OR (since = $1 AND (address_hash, mail_class, reason) > ($2, $3, $4))
    ORDER BY since DESC, address_hash, mail_class, reason LIMIT $5";
const CONTACT: &str = "SELECT contact_id, address FROM crm.contact_address
    WHERE address_hash = $1 ORDER BY is_primary DESC, created_at, address_id LIMIT 1";

/// An address that must not be written to. Expired entries stay until something replaces them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suppression {
    pub address_hash: Vec<u8>,
    pub mail_class: String,
    pub reason: String,
    pub origin: String,
    pub evidence: Value,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
}

/// A suppression as the API shows it.
#[derive(Serialize)]
struct SuppressionView<'s> {
    address_hash: String,
    mail_class: &'s str,
    reason: &'s str,
    origin: &'s str,
    evidence: &'s Value,
    since: Timestamp,
    until: Option<Timestamp>,
}

impl Serialize for Suppression {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { address_hash, mail_class, reason, origin, evidence, since, until } = self;
        let (address_hash, since, until) = (hex::encode(address_hash), *since, *until);
        SuppressionView { address_hash, mail_class, reason, origin, evidence, since, until }.serialize(serializer)
    }
}

/// The position in the list after which a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SuppressionPosition {
    pub since: Timestamp,
    pub address_hash: Vec<u8>,
    pub mail_class: String,
    pub reason: String,
}

/// Inserts an entry, or changes its time. Returns `false` if it was in force like this already.
pub(crate) async fn put_suppression(tx: &Tx, entry: &Suppression) -> Result<bool, DbError> {
    let Suppression { address_hash, mail_class, reason, origin, evidence, since, until } = entry;
    let changed = tx
        .execute(PUT, &[&tx.tenant()?.as_str(), address_hash, mail_class, reason, origin, evidence, since, until])
        .await?;
    Ok(changed == 1)
}

/// Deletes an entry. Returns `false` if there is none.
pub(crate) async fn delete_suppression(
    tx: &Tx,
    address_hash: &[u8],
    mail_class: &str,
    reason: &str,
) -> Result<bool, DbError> {
    Ok(tx.execute(DELETE, &[&address_hash, &mail_class, &reason]).await? == 1)
}

/// Returns all entries of an address, expired ones included.
pub(crate) async fn suppressions_of(tx: &Tx, address_hash: &[u8]) -> Result<Vec<Suppression>, DbError> {
    let rows = tx.query(OF_ADDRESS, &[&address_hash, &OF_ADDRESS_MAX]).await?;
    Ok(rows.iter().map(read).collect())
}

/// Returns entries after `position`, latest first.
pub(crate) async fn list_suppressions(
    tx: &Tx,
    position: &SuppressionPosition,
    limit: i64,
) -> Result<Vec<Suppression>, DbError> {
    let SuppressionPosition { since, address_hash, mail_class, reason } = position;
    let rows = tx.query(LIST, &[since, address_hash, mail_class, reason, &limit]).await?;
    Ok(rows.iter().map(read).collect())
}

/// Returns a contact that has the address.
pub(crate) async fn contact_of_address(tx: &Tx, address_hash: &[u8]) -> Result<Option<Uuid>, DbError> {
    Ok(tx.query_opt(CONTACT, &[&address_hash]).await?.map(|row| row.get(0)))
}

/// Returns the address with this hash, if a contact has it. It is personal: show it masked only.
pub(crate) async fn contact_address(tx: &Tx, address_hash: &[u8]) -> Result<Option<String>, DbError> {
    Ok(tx.query_opt(CONTACT, &[&address_hash]).await?.map(|row| row.get(1)))
}

fn read(row: &Row) -> Suppression {
    Suppression {
        address_hash: row.get(0),
        mail_class: row.get(1),
        reason: row.get(2),
        origin: row.get(3),
        evidence: row.get(4),
        since: row.get(5),
        until: row.get(6),
    }
}
